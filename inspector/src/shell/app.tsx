// The frame of every page: header, navigation, the view, dialogs.

import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { copyText, ErrorNote, Name, showToast, Toast } from "../components";
import { access, can, canonicalPath, exported, follow, forgetKey, keyWanted, liveState, p, type LiveState } from "../data";
import { bind } from "../keys";
import { go, link, route, scopeKey, scopeQuery } from "../router";
import { SESSION_VIEWS, VIEWS, type View } from "../views";
import { Help, isHelpOpen, SecondKeys } from "./help";
import { BrandMark, KeyPrompt } from "./key_prompt";
import { isSearchOpen, SearchPalette } from "./search";
import { nextTheme, theme } from "./theme";

function findView(): View | undefined {
  return VIEWS.find((view) => view.name === route.value.view && (view.of === "session") === (route.value.scope !== null));
}

function shownViews(): readonly View[] {
  const store = VIEWS.filter((view) => view.of === "store" && (view.name !== "store" || (can("admin") && !exported)));
  return route.value.scope ? SESSION_VIEWS : store;
}

function stepView(step: number): void {
  const views = shownViews();
  const index = views.findIndex((view) => view.name === route.value.view);
  const next = views[(index + step + views.length) % views.length];
  if (next) go(link(next.name));
}

function bindGlobalKeys(): () => void {
  const group = "Everywhere";
  const jumps = VIEWS.map((view) => ({
    keys: `g ${view.letter}`, label: view.label, group: "Go to",
    run: () => {
      if (view.of === "session" && !route.value.scope) showToast("Open a session first");
      else go(link(view.name));
    },
  }));
  return bind([
    { keys: "/", label: "Search", group, run: () => (isSearchOpen.value = true) },
    { keys: "?", label: "Help", group, run: () => (isHelpOpen.value = true) },
    { keys: "[", label: "The view before", group, run: () => stepView(-1) },
    { keys: "]", label: "The next view", group, run: () => stepView(1) },
    { keys: "c", label: "Copy a link to this", group, run: () => void copyText(location.href, "Link copied") },
    { keys: "d", label: "Dark, light, or as the system", group, run: nextTheme },
    ...jumps,
  ]);
}

const LIVE: Record<LiveState, [string, string]> = {
  off: ["Not live", "The page does not follow the session"],
  connecting: ["Connecting", "The page connects to the feed of the session"],
  live: ["Live", "The page follows the session as it happens"],
  waiting: ["Reconnecting", "The connection was lost; the page tries again"],
};

function LiveMark(): JSX.Element | null {
  if (exported) return <span class="live" title={`Made by Holdfast ${exported.holdfast} at ${exported.made_at}; redaction: ${exported.redaction}`}><span class="live-dot is-off" aria-hidden="true" />Exported file</span>;
  if (!route.value.scope) return null;
  const [text, title] = LIVE[liveState.value];
  return <span class="live" role="status" title={title}><span class={`live-dot is-${liveState.value}`} aria-hidden="true" />{text}</span>;
}

function Header(): JSX.Element {
  const scope = route.value.scope;
  const themeNames = { system: "as the system", light: "light", dark: "dark" };
  return (
    <header class="header">
      <a class="brand" href={link("home", [], {}, null)} aria-label="Holdfast: sessions"><BrandMark /><span class="brand-name">Holdfast</span></a>
      {scope && (
        <div class="crumb truncate">
          <span class="faint" aria-hidden="true">/</span>
          {scope.actor && <span class="faint"><Name text={scope.actor} /> /</span>}
          <strong class="truncate"><Name text={scope.session} /></strong>
          {scope.thread && <span class="faint">/ <Name text={scope.thread} /></span>}
        </div>
      )}
      <span class="spacer" />
      <div class="header-tools">
        <LiveMark />
        {access.value && !access.value.is_local && (
          <button type="button" class="button small" title={`Signed in as ${access.value.principal}; rights: ${access.value.rights.join(", ")}. Press to use another key.`} onClick={forgetKey}>
            <Name text={access.value.user ?? access.value.principal} />
          </button>
        )}
        <button type="button" class="button small" onClick={() => (isSearchOpen.value = true)}>Search <kbd aria-hidden="true">/</kbd></button>
        <button type="button" class="button small" onClick={nextTheme} aria-label={`Theme: ${themeNames[theme.value]}`} title={`Theme: ${themeNames[theme.value]}`}>
          <span aria-hidden="true">{{ system: "◐", light: "☀", dark: "☾" }[theme.value]}</span>
        </button>
        <button type="button" class="button small" onClick={() => (isHelpOpen.value = true)} aria-label="Help" title="Help"><span aria-hidden="true">?</span></button>
      </div>
    </header>
  );
}

function Navigation(): JSX.Element {
  return (
    <nav class="navigation" aria-label="Views">
      {shownViews().map((view) => (
        <a key={view.name} href={link(view.name)} aria-current={view.name === route.value.view ? "page" : undefined} title={`g ${view.letter}`}>{view.label}</a>
      ))}
    </nav>
  );
}

/** Shows an error of a view in its place; the rest of the page works on. */
class Boundary extends Component<{ of: string; children: ComponentChildren }, { error: unknown; of: string }> {
  override state = { error: undefined as unknown, of: this.props.of };
  static override getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }
  override componentDidUpdate(): void {
    if (this.state.of !== this.props.of) this.setState({ error: undefined, of: this.props.of });
  }
  override render(): ComponentChildren {
    if (this.state.error === undefined || this.state.of !== this.props.of) return this.props.children;
    return <div class="page"><ErrorNote error={this.state.error} onRetry={() => this.setState({ error: undefined })} /></div>;
  }
}

function NotFound(): JSX.Element {
  return <div class="page"><div class="empty"><p class="empty-title">There is no such page</p><p class="empty-text"><a href={link("home", [], {}, null)}>All sessions</a></p></div></div>;
}

export function App(): JSX.Element {
  const main = useRef<HTMLElement>(null);
  const view = findView();
  const name = view?.name ?? "";
  useEffect(bindGlobalKeys, []);
  useEffect(() => {
    const scope = route.value.scope;
    follow(scope && !keyWanted.value ? canonicalPath(p`/sessions/${scope.session}/feed`, { ...scopeQuery(scope), after: "now" }) : null);
  }, [scopeKey.value, keyWanted.value]);
  useEffect(() => {
    const session = route.value.scope?.session;
    document.title = [view?.label, session, "Holdfast"].filter(Boolean).join(" · ");
  }, [name, scopeKey.value]);
  if (keyWanted.value && !exported) return <KeyPrompt />;
  const Shown = view?.component ?? NotFound;
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <Header />
      <Navigation />
      <main id="main" class="main" ref={main} tabIndex={-1}>
        <Boundary of={`${name} ${scopeKey.value}`}><Shown key={`${name} ${scopeKey.value}`} /></Boundary>
      </main>
      <SearchPalette />
      <Help />
      <SecondKeys />
      <Toast />
    </div>
  );
}
