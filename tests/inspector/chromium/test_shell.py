"""The frame of the page in a real browser: keys, addresses, themes, the keyboard, and what it asks of the network."""

from __future__ import annotations

import dataclasses

from playwright.sync_api import expect

from tests.inspector.browser import NARROW, Watched, route_to
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.sample import TRIP
from tests.inspector.serving import Site
from tests.inspector.views import SESSION_VIEWS, STORE_VIEWS, go_to, view_route, wait_ready

WRONG_KEY = "hf_000000000000_wrong"
REFUSAL = r"401|Unauthorized"
"""What the browser itself writes to its console when a server refuses a key."""


def test_the_key_leaves_the_address_and_opens_links_in_new_tabs(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP, "facts"))
    wait_ready(watched)
    assert site.key not in watched.page.url
    assert watched.page.url == f"{site.url}/{route_to('s', TRIP, 'facts')}"
    assert watched.page.evaluate("() => document.cookie") == ""
    assert all(site.key not in request for request in watched.requests)
    other = watched.page.context.new_page()
    other.goto(f"{site.url}/{route_to('s', TRIP, 'run')}")
    expect(other.get_by_role("navigation", name="Views")).to_be_visible()
    other.close()


def test_without_a_key_the_page_asks_for_one_and_shows_nothing(site: Site, visit: OpenPage) -> None:
    watched = visit(dataclasses.replace(site, key=""), route_to("s", TRIP, "facts"))
    watched.expect(REFUSAL)
    field = watched.page.get_by_label("Key")
    expect(field).to_be_visible()
    expect(field).to_have_attribute("type", "password")
    assert TRIP not in watched.text()
    assert "Casa do Rio" not in watched.page.content()
    field.fill(WRONG_KEY)
    watched.page.get_by_role("button", name="Open").click()
    expect(watched.page.get_by_role("heading", name="not accepted")).to_be_visible()
    watched.page.get_by_label("Key").fill(site.key)
    watched.page.get_by_role("button", name="Open").click()
    expect(watched.page.get_by_role("navigation", name="Views")).to_be_visible()
    assert watched.page.url.endswith(route_to("s", TRIP, "facts"))


def test_every_view_has_an_address_and_the_browser_goes_back_and_forward(site: Site, visit: OpenPage) -> None:
    watched = visit(site)
    wait_ready(watched)
    routes = [view_route(TRIP, view) for view in ("timeline", "run", "facts")]
    for route in routes:
        go_to(watched, route)
    watched.page.go_back()
    watched.page.wait_for_url(f"**/{routes[1]}")
    wait_ready(watched)
    expect(watched.page.locator("nav [aria-current=page]")).to_have_attribute("href", routes[1])
    watched.page.go_forward()
    watched.page.wait_for_url(f"**/{routes[2]}")
    expect(watched.page.locator("nav [aria-current=page]")).to_have_attribute("href", routes[2])


def press(watched: Watched, *keys: str) -> None:
    for key in keys:
        watched.page.keyboard.press(key)


def test_the_keyboard_reaches_every_view_the_search_and_the_help(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP, "call"))
    wait_ready(watched)
    before = watched.page.url
    press(watched, "]")
    watched.page.wait_for_function("(before) => location.href !== before", arg=before)
    wait_ready(watched)
    press(watched, "?")
    dialog = watched.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Search")
    press(watched, "Escape")
    expect(dialog).to_have_count(0)
    press(watched, "/")
    expect(watched.page.get_by_role("dialog")).to_be_visible()
    press(watched, "Escape")
    expect(watched.page.get_by_role("dialog")).to_have_count(0)
    press(watched, "g", "f")
    watched.page.wait_for_url(f"**/{route_to('s', TRIP, 'facts')}*")


def test_the_first_of_two_keys_waits_and_says_what_may_follow(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP, "facts"))
    wait_ready(watched)
    hint = watched.page.get_by_role("status", name="Keys")
    for end in ("Escape", "x", "click"):
        press(watched, "g")
        expect(hint).to_contain_text("Timeline")
        if end == "click":
            watched.page.get_by_role("banner").click(position={"x": 300, "y": 10})
        else:
            press(watched, end)
        expect(hint).to_be_empty()
        press(watched, "t")  # by itself, it does nothing
    assert watched.page.url.endswith(route_to("s", TRIP, "facts"))
    press(watched, "g")
    watched.page.wait_for_timeout(1_200)  # nobody has to be quick
    press(watched, "t")
    watched.page.wait_for_url(f"**/{route_to('s', TRIP, 'timeline')}*")
    expect(hint).to_be_empty()


def test_j_and_k_go_to_the_next_one_and_back(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "call"))
    for view in ("call", "timeline", "run", "facts", "what-if", "messages"):
        go_to(watched, view_route(TRIP, view))
        places = []
        for key in ("k", "k", "j") if view in ("call", "run", "what-if", "messages") else ("j", "j", "k"):
            before = watched.page.url
            press(watched, key)
            watched.page.wait_for_function("(before) => location.href !== before", arg=before)
            wait_ready(watched)
            places.append(watched.page.url)
        assert places[0] == places[2] != places[1], view


def test_typing_into_a_field_triggers_no_shortcut(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP, "call"))
    wait_ready(watched)
    press(watched, "/")
    field = watched.page.get_by_role("dialog").locator("input").first
    field.fill("")
    field.press_sequentially("g f?j")
    expect(field).to_have_value("g f?j")
    assert "/facts" not in watched.page.url


BEYOND = """() => [...document.querySelectorAll("header *, nav, main > * > *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width > 0 && box.left < -1;
}).map((each) => each.outerHTML.slice(0, 120))"""


def test_a_view_on_a_narrow_screen_scrolls_in_one_direction_only(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "home"), size=NARROW)
    for view in (*STORE_VIEWS, *SESSION_VIEWS):
        go_to(watched, view_route(TRIP, view))
        widths = watched.page.evaluate("() => [document.scrollingElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], (view, widths)
        assert not watched.page.evaluate(BEYOND), view


def test_the_theme_follows_the_system_and_can_be_chosen(site: Site, visit: OpenPage) -> None:
    def background(watched: Watched) -> int:
        rgb: str = watched.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(each) for each in rgb[rgb.index("(") + 1 : -1].split(",")[:3])

    light, dark = visit(site), visit(site, dark=True)
    wait_ready(light)
    wait_ready(dark)
    assert background(light) > 600 > 200 > background(dark)
    button = light.page.get_by_role("button", name="Theme")
    for _ in range(3):
        if background(light) < 200:
            break
        button.click()
    assert background(light) < 200
    light.page.reload()
    wait_ready(light)
    assert background(light) < 200, "the choice is kept"


def test_a_page_asks_its_own_server_only_and_stores_nothing_but_its_key(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP))
    wait_ready(watched)
    for view in SESSION_VIEWS:
        go_to(watched, view_route(TRIP, view))
    assert watched.requests
    assert all(request.startswith((f"{site.url}/", "data:", "blob:")) for request in watched.requests)
    stored = watched.page.evaluate("() => JSON.stringify([localStorage, sessionStorage])")
    assert "Casa do Rio" not in stored
    assert "Maya" not in stored
