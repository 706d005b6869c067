// The views, in the order of the navigation.

import { call } from "./call";
import { facts } from "./facts";
import { home } from "./home";
import { memory } from "./memory";
import { messages } from "./messages";
import { run } from "./run";
import { store } from "./store";
import { timeline } from "./timeline";
import type { View } from "./view";
import { whatIf } from "./what-if";

export type { View } from "./view";

export const VIEWS: readonly View[] = [home, call, timeline, run, facts, whatIf, memory, messages, store];
export const SESSION_VIEWS: readonly View[] = VIEWS.filter((view) => view.of === "session");
