// What a page shows when there is nothing to show yet, nothing at all, or an error.

import type { ComponentChildren, JSX } from "preact";
import { ApiError, type Resource } from "../data";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Loading({ label = "Loading" }: { label?: string }): JSX.Element {
  return <div class="loading" role="status"><span class="loading-bar" aria-hidden="true" /><span class="visually-hidden">{label}</span></div>;
}

export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }): JSX.Element {
  const isProblem = error instanceof ApiError;
  if (isProblem && error.problem.type === "NotExported") return <Empty title={error.problem.title}>{error.problem.detail}</Empty>;
  const title = isProblem ? error.problem.title : "The server cannot be reached";
  const text = isProblem ? error.problem.detail : error instanceof Error ? error.message : String(error);
  return (
    <div class="error-note" role="alert">
      <p class="empty-title"><span aria-hidden="true">✕ </span>{title}</p>
      {text && <p>{text}</p>}
      {onRetry && <button type="button" class="button" onClick={onRetry}>Try again</button>}
    </div>
  );
}

/** The data of a resource, or what is there instead. */
export function Await<T>({ of, children }: { of: Resource<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  if (of.data !== undefined) return <>{children(of.data)}</>;
  if (of.error !== undefined) return <ErrorNote error={of.error} onRetry={of.reload} />;
  return <Loading />;
}
