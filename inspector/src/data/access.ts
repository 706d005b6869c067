// What the key may do. A page shows no button that would be refused.

import { signal } from "@preact/signals";
import { exported, get, isAbsent } from "./source";
import type { Access } from "./types";

export const access = signal<Access | null>(null);

export async function loadAccess(): Promise<void> {
  if (exported) return;
  try {
    access.value = await get<Access>("/caller");
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
}

/** Whether the key has a right: "read", "write" or "admin". Unknown rights are no rights. */
export function can(right: string): boolean {
  if (exported) return right === "read";
  return access.value?.rights.includes(right) ?? right === "read";
}
