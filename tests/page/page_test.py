#!/usr/bin/env python3
"""Drives the page in Chromium by the keyboard alone.

Without --url against fake_server.py; with it against a server that runs, where all that needs canned answers is
left out. --screenshot FILE.png keeps a picture of a chat.
"""

import argparse
import json
import shutil
import sys
import threading
import time
import traceback

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import fake_server


class Page:
    """The page, and keys to press."""

    def __init__(self, url, patience, server=None):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,820"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(service=service, options=options)
        self.url = url
        self.patience = patience
        self.server = server  # the fake one
        self.sent = []  # bodies of the chats that went out
        self.headers = {}  # of the last of them
        self.addresses = []  # everything that was asked for
        self.driver.get(url)

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return "\n".join(element.text for element in self.find(selector))

    def script(self, code):
        return self.driver.execute_script(code)

    def press(self, *keys):
        """Keys to whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def chord(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def focus(self):
        return self.script("const e = document.activeElement; return e.name || e.id || e.textContent")

    def tab_to(self, name):
        for _ in range(40):
            if self.focus() == name:
                return
            self.press(Keys.TAB)
        raise AssertionError(f"no way by Tab to {name}")

    def until(self, what, condition):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError(f"never: {what}; the conversation is:\n{self.text('#log')}")

    def answering(self):
        return self.find("#stop")[0].is_displayed()

    def say(self, text):
        assert self.focus() == "message", self.focus()
        self.press(text, Keys.ENTER)
        self.until("a request", lambda: self.answering() or self.find("article.assistant"))

    def finish(self):
        self.until("the end of the answer", lambda: not self.answering())

    def fresh(self):
        self.chord(Keys.ALT, "n")
        assert self.text("#log") == ""

    def set(self, **fields):
        self.chord(Keys.ALT, "s")
        for name, value in fields.items():
            self.tab_to(name)
            if self.script("return document.activeElement.tagName") != "SELECT":
                self.chord(Keys.CONTROL, "a")
                self.press(Keys.DELETE)
            self.press(value)
        self.press(Keys.ESCAPE)

    def controls(self):
        """(role, name) of all that takes the focus."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [(node["role"]["value"], node["name"]["value"]) for node in nodes
                if not node["ignored"] and node["role"]["value"] != "RootWebArea"
                and any(item["name"] == "focusable" and item["value"]["value"] for item in node["properties"])]

    def read_traffic(self):
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                request = message["params"]["request"]
                self.addresses.append(request["url"])
                if request["url"].endswith("/v1/chat/completions"):
                    self.sent.append(json.loads(request["postData"]))
                    self.headers = request["headers"]

    def last_sent(self):
        self.read_traffic()
        return self.sent[-1]


def streams_an_answer(page):
    page.say("Hello, what do you know of whales?")
    grown = page.until("some text", lambda: page.text("article.assistant .text"))
    page.until("more text", lambda: len(page.text("article.assistant .text")) > len(grown) or not page.answering())
    page.finish()
    assert page.text("article.assistant .text"), "no text"
    assert page.text("article.user .text") == "Hello, what do you know of whales?"
    assert not page.find(".error")[0].is_displayed(), page.text(".error")
    stats = page.text(".stats")
    for part in ("first token after", "tokens/s", "from the cache"):
        assert part in stats, stats
    assert page.focus() == "message", "the focus went elsewhere"
    assert page.last_sent()["stream_options"] == {"include_usage": True}


def shows_the_server(page):
    page.until("pools", lambda: page.find("#pools .pool rect"))
    assert "running" in page.text("#requests")
    assert page.text("#served")


def folds_thinking(page):
    page.fresh()
    page.say("Hello")
    page.until("thinking, open", lambda: page.find("details.thinking[open]"))
    page.until("thinking, folded again", lambda: not page.find("details.thinking[open]"))
    page.finish()
    assert page.script("return document.querySelector('.thinking div').textContent").startswith("The user greets me.\n")
    page.chord(Keys.ALT, "l")
    page.tab_to("Thinking")
    page.press(Keys.SPACE)
    page.until("thinking, open by hand", lambda: page.find("details.thinking[open]"))
    page.chord(Keys.ALT, "m")


def renders_markdown(page):
    assert [item.text for item in page.find("ol li")][0] == "a click leaves the nose,"
    assert page.text("pre code").startswith("def distance(delay_seconds, speed=1500):\n    return")
    assert page.text("table em") == "most dives"
    link = page.find("article a")[0]
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert link.text == "https://en.wikipedia.org/wiki/Sperm_whale"


def announces_whole_answers_only(page):
    page.fresh()
    page.script("window.heard = []; new MutationObserver(() => heard.push(document.querySelector('#announcer')"
                ".textContent)).observe(document.querySelector('#announcer'), {childList: true})")
    page.say("Hello")
    page.finish()
    assert page.script("return heard") == ["Answering.", fake_server.WHALE], page.script("return heard")
    assert page.find("#log")[0].get_attribute("aria-live") == "off"


def answers_calls(page):
    page.fresh()
    page.say("How is the weather?")
    page.finish()
    assert [name.text for name in page.find(".call h3 code")] == ["look_up", "<b>evil</b>"]
    assert page.text(".call:first-child pre") == '{\n  "city": "Paris",\n  "days": 2\n}'
    page.press("too soon", Keys.ENTER)
    assert page.focus() == "result-0", "a message went before the results"
    page.press("21 degrees", Keys.TAB, Keys.ENTER)
    page.tab_to("result-1")
    page.press("none", Keys.ENTER)
    page.until("the answer to the results", lambda: "The tool says: none" in page.text("#log"))
    page.finish()
    sent = page.last_sent()["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"], sent
    assert sent[1]["reasoning_content"] == "I have to look."
    assert sent[1]["tool_calls"][0] == {"id": "call_0", "type": "function", "function": {
        "name": "look_up", "arguments": '{"city": "Paris", "days": 2}'}}
    assert sent[2] == {"role": "tool", "tool_call_id": "call_0", "content": "21 degrees"}
    page.chord(Keys.ALT, "m")
    page.chord(Keys.CONTROL, "a")
    page.press(Keys.DELETE)


def shows_how_far_the_prompt_is(page):
    page.fresh()
    page.say("wait")
    page.until("progress", lambda: "512 of 512 tokens, 384 from the cache" in page.text("article label"))
    assert page.script("const bar = document.querySelector('progress'); return [bar.value, bar.max]") == [512, 512]
    page.server.go.set()
    page.finish()
    assert not page.find("progress")[0].is_displayed()


def begins_lines(page):
    page.fresh()
    page.press("one")
    page.chord(Keys.SHIFT, Keys.ENTER)
    page.say("two")
    page.finish()
    assert page.last_sent()["messages"][0]["content"] == "one\ntwo"


def stops(page):
    page.fresh()
    page.say("endless")
    page.until("some text", lambda: "on and on" in page.text("#log"))
    page.press(Keys.ESCAPE)
    page.finish()
    assert "stopped" in page.text(".stats")
    assert page.server.gone.wait(page.patience), "the server never noticed"
    page.press("endless again", Keys.ENTER)
    page.until("an answer under way", page.answering)
    page.tab_to("stop")
    page.press(Keys.ENTER)
    page.finish()
    assert page.focus() == "message", page.focus()
    assert "on and on" in page.last_sent()["messages"][1]["content"], "what there was is part of the chat"


def answers_again(page):
    page.fresh()
    page.say("Hello")
    page.finish()
    page.chord(Keys.ALT, "r")
    page.until("a new answer", page.answering)
    page.finish()
    assert [message["role"] for message in page.last_sent()["messages"]] == ["user"]
    page.chord(Keys.ALT, "u")
    page.press(" again", Keys.ENTER)
    page.until("a new answer", page.answering)
    page.finish()
    assert [message["content"] for message in page.last_sent()["messages"]] == ["Hello again"]
    assert len(page.find("article")) == 2


def applies_settings(page):
    page.fresh()
    tools = [{"name": "look_up", "parameters": {"type": "object", "properties": {}}}]
    page.set(system="Be brief.", temperature="0.5", top_p="0.9", top_k="20", min_p="0.01", max_tokens="64", seed="7",
             thinking="on", effort="high", tools=json.dumps(tools), key="sesame")
    page.say("Hello")
    page.finish()
    sent = page.last_sent()
    expected = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "max_tokens": 64, "seed": 7,
                "thinking": {"type": "enabled"}, "reasoning_effort": "high",
                "tools": [{"type": "function", "function": tools[0]}]}
    assert expected.items() <= sent.items(), sent
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert page.headers["Authorization"] == "Bearer sesame"
    assert "sesame" not in page.script("return JSON.stringify({...localStorage})")


def clears_settings(page):
    page.set(system="", temperature="", top_p="", top_k="", min_p="", max_tokens="", seed="", tools="", key="",
             thinking=Keys.HOME, effort=Keys.HOME)
    page.fresh()
    page.say("Hello")
    page.finish()
    assert page.last_sent().keys() <= {"messages", "model", "stream", "stream_options", "return_progress"}, page.sent[-1]


def refuses_bad_tools(page):
    page.fresh()
    page.set(tools="[{")
    page.say("Hello")
    page.until("an error", lambda: page.text(".error").startswith("Tools:"))
    page.set(tools="")


def keeps_the_chat(page):
    before = page.text("#log")
    page.driver.refresh()
    page.until("the same chat", lambda: page.text("#log") == before)


def tells_errors(page):
    for word, expected in (("refuse", "400: temperature: <img src=x"), ("overload", "Try again in 7 s."),
                           ("device", "the device failed"), ("break", "The stream broke off.")):
        page.fresh()
        page.say(word)
        page.until(expected, lambda: expected in page.text(".error"))
        page.finish()


def takes_text_for_text(page):
    page.fresh()
    page.say("inject " + fake_server.HOSTILE)
    page.finish()
    page.driver.refresh()
    page.until("the chat", lambda: page.find("article.assistant"))
    assert page.driver.title == "cachalot", "a script ran"
    assert not page.find("article img, article script, article b, #server i, article a, article i")
    assert page.text("article.assistant h3") == fake_server.HOSTILE
    assert "javascript:" in page.text("article.assistant .text"), "the link is gone"
    page.until("the pool's name", lambda: "<i>rows</i>" in page.text("#pools"))


def names_every_control(page):
    """As the browser tells it to a screen reader."""
    for button in ("", "open-settings", "open-keys"):
        if button:
            page.tab_to(button)
            page.press(Keys.ENTER)
        found = page.controls()
        assert len(found) >= (14 if button == "open-settings" else 1), found
        nameless = [role for role, name in found if not name]
        assert not nameless, found
        if button:
            page.press(Keys.ESCAPE)
            page.until("the dialog closed", lambda: page.focus() == button)
    page.chord(Keys.ALT, "m")


def fits_narrow_screens(page):
    page.driver.set_window_size(500, 800)
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    assert page.script("return document.querySelector('#log').clientHeight > 200")
    page.driver.set_window_size(1200, 820)


def stays_at_home(page):
    page.read_traffic()
    away = [address for address in page.addresses if not address.startswith((page.url, "data:", "chrome:"))]
    assert not away, away


def leaves_the_console_quiet(page):
    # Chromium itself logs each status of 400 and more.
    noise = [entry for entry in page.driver.get_log("browser")
             if not (entry["source"] == "network" and "/v1/chat/completions" in entry["message"])]
    assert not noise, noise


def take_screenshot(page, path):
    if page.server:
        page.server.hostile = False
    page.driver.set_window_size(1200, 960)
    page.driver.refresh()
    page.fresh()
    page.say("How do sperm whales hunt?")
    page.finish()
    time.sleep(5)  # for a line in the picture of the cache
    page.driver.save_screenshot(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="of a server that runs, with / at its end")
    parser.add_argument("--screenshot", help="a .png to write")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for anything")
    arguments = parser.parse_args()

    server = None
    if not arguments.url:
        server = fake_server.FakeServer()
        threading.Thread(target=server.serve_forever, daemon=True).start()
    page = Page(arguments.url or server.url, arguments.patience, server)
    real = [streams_an_answer, shows_the_server, keeps_the_chat, applies_settings, clears_settings]
    canned = [folds_thinking, renders_markdown, announces_whole_answers_only, answers_calls, begins_lines,
              shows_how_far_the_prompt_is, stops, answers_again, refuses_bad_tools, tells_errors, takes_text_for_text]
    tests = [*real, *(canned if server else []), names_every_control, fits_narrow_screens, stays_at_home,
             leaves_the_console_quiet]
    failed = 0
    try:
        for test in tests:
            try:
                test(page)
                print(f"ok    {test.__name__}")
            except Exception:
                failed += 1
                print(f"FAIL  {test.__name__}\n{traceback.format_exc()}")
        if arguments.screenshot:
            take_screenshot(page, arguments.screenshot)
    finally:
        page.driver.quit()
    print(f"{len(tests) - failed} of {len(tests)} pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
