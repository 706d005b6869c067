import { render } from "preact";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/shell.css";
import { loadAccess, takeKeyFromFragment } from "./data";
import { openExported, parseHash, route } from "./router";
import { App } from "./shell/app";

takeKeyFromFragment();
openExported();
route.value = parseHash(location.hash);
void loadAccess().catch(() => undefined);
render(<App />, document.getElementById("app")!);
