"""The official clients of OpenAI and Anthropic in conversation with the server, over every endpoint.

Run by `make clients`: clients_test.py PROGRAM MODEL. The model is models/calf, which answers simple questions
and calls tools.
"""

import json
import os
import re
import sys
import unittest

import anthropic
import jsonschema
import openai

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]
KEY = "sk-test"

CAPITAL = {"role": "user", "content": "What is the capital of France?"}


def solved_call():
    """Tools, question, name and arguments of a call that calf makes as it should (models/calf/README.md)."""
    with open(os.path.join(MODEL, "eval.jsonl"), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        prompt, answer = row["prompt"], row["answer"]
        if row["task"] == "tool" and row["solved"] and prompt.count("<｜User｜>") == 1 and "invoke name" in answer:
            schemas = prompt.split("### Tool Schemas\n\n")[1].split("\n\n")[0]
            question = prompt.split("<｜User｜>")[1].split("<｜Assistant｜>")[0]
            name = re.search(r'invoke name="(.*?)"', answer).group(1)
            found = re.findall(r'parameter name="(.*?)" string="(true|false)">(.*?)</', answer)
            arguments = {key: value if is_text == "true" else json.loads(value) for key, is_text, value in found}
            return [json.loads(line) for line in schemas.splitlines()], question, name, arguments
    raise AssertionError("no such row")


FUNCTIONS, QUESTION, CALL_NAME, CALL_ARGUMENTS = solved_call()
ASK = {"role": "user", "content": QUESTION}
PERSON = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "age": {"type": "integer", "minimum": 0, "maximum": 150},
                         "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}


def setUpModule():
    global server, openai_client, anthropic_client
    server = Server(PROGRAM, MODEL, "--api-key", KEY, "--context", "4096", "--cache-bytes", "64M")
    openai_client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0)
    anthropic_client = anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0)


def tearDownModule():
    code, complaints = server.stop()
    assert code == 0, code
    assert not complaints, complaints


class OpenAiChat(unittest.TestCase):
    def ask(self, *messages, **fields):
        return openai_client.chat.completions.create(model="calf", messages=list(messages),
                                                     temperature=0, **fields)

    def test_answers(self):
        answer = self.ask(CAPITAL)
        self.assertIn("Paris", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertEqual(usage.prompt_tokens_details.cached_tokens, 0)

    def test_streams_what_it_answers(self):
        whole = self.ask(CAPITAL)
        chunks = list(self.ask(CAPITAL, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(sum(bool(c.choices and c.choices[0].finish_reason) for c in chunks), 1)

    def test_holds_a_conversation(self):
        first = self.ask(CAPITAL).choices[0].message
        second = self.ask(CAPITAL, first.model_dump(exclude_none=True),
                          {"role": "user", "content": "What day comes after Friday?"})
        self.assertIn("Saturday", second.choices[0].message.content)

    def test_thinks(self):
        question = {"role": "user", "content": "What is 91 + 30?"}
        for fields in ({"reasoning_effort": "high"}, {"extra_body": {"thinking": {"type": "enabled"}}},
                       {"extra_body": {"chat_template_kwargs": {"thinking": True}}}):
            message = self.ask(question, **fields).choices[0].message
            self.assertIn("carry", message.reasoning_content)
            self.assertNotIn("think>", message.content)
        silent = self.ask(question, reasoning_effort="none").choices[0].message
        self.assertFalse(getattr(silent, "reasoning_content", None))

    def test_streams_thinking(self):
        chunks = list(self.ask({"role": "user", "content": "What is 91 + 30?"}, stream=True,
                               reasoning_effort="low"))
        thoughts = "".join(getattr(c.choices[0].delta, "reasoning_content", None) or "" for c in chunks)
        self.assertIn("carry", thoughts)

    def test_calls_a_tool_and_hears_of_it(self):
        tools = [{"type": "function", "function": f} for f in FUNCTIONS]
        for choice in ("auto", "required", {"type": "function", "function": {"name": CALL_NAME}}):
            answer = self.ask(ASK, tools=tools, tool_choice=choice, reasoning_effort="high")
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            (call,) = answer.choices[0].message.tool_calls
            self.assertEqual(call.function.name, CALL_NAME)
            self.assertEqual(json.loads(call.function.arguments), CALL_ARGUMENTS)
        reply = self.ask(ASK, answer.choices[0].message.model_dump(exclude_none=True),
                         {"role": "tool", "tool_call_id": call.id, "content": "done"}, tools=tools)
        self.assertNotIn("DSML", reply.choices[0].message.content or "")

    def test_streams_a_tool_call(self):
        chunks = list(self.ask(ASK, tools=[{"type": "function", "function": f} for f in FUNCTIONS], stream=True,
                               reasoning_effort="high"))
        deltas = [d for c in chunks for d in (c.choices[0].delta.tool_calls or [])]
        self.assertEqual(deltas[0].function.name, CALL_NAME)
        arguments = "".join(d.function.arguments or "" for d in deltas)
        self.assertEqual(json.loads(arguments), CALL_ARGUMENTS)
        self.assertFalse(any("DSML" in (c.choices[0].delta.content or "") for c in chunks))

    def test_calls_none_where_none_may_be(self):
        answer = self.ask(ASK, tools=[{"type": "function", "function": f} for f in FUNCTIONS], tool_choice="none")
        self.assertIsNone(answer.choices[0].message.tool_calls)

    def test_finds_its_own_calls_in_the_cache(self):
        # Of a prompt of many pages, all whole pages up to the end of the model's own call are there again.
        filler = {"role": "system", "content": "The lake is blue. " * 60}
        tools = [{"type": "function", "function": f} for f in FUNCTIONS]
        first = self.ask(filler, ASK, tools=tools, tool_choice="required", max_tokens=200)
        message = first.choices[0].message.model_dump(exclude_none=True)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"}
                   for call in message["tool_calls"]]
        second = self.ask(filler, ASK, message, *results, tools=tools, max_tokens=4)
        known = first.usage.prompt_tokens + first.usage.completion_tokens
        self.assertGreaterEqual(second.usage.prompt_tokens_details.cached_tokens, known // 128 * 128 - 128)

    def test_writes_json(self):
        for effort in ("none", "low"):
            for form, schema in (({"type": "json_object"}, {"type": "object"}),
                                 ({"type": "json_schema",
                                   "json_schema": {"name": "person", "schema": PERSON, "strict": True}}, PERSON)):
                answer = self.ask({"role": "user", "content": "Who are you?"}, response_format=form,
                                  reasoning_effort=effort, max_tokens=600,
                                  extra_body={"thinking_budget": 40} if effort != "none" else None)
                if answer.choices[0].finish_reason == "stop":
                    jsonschema.validate(json.loads(answer.choices[0].message.content), schema)
                else:
                    self.assertEqual(form["type"], "json_object")

    def test_gives_several_choices_and_logprobs(self):
        answer = openai_client.chat.completions.create(
            model="calf", messages=[CAPITAL], n=3, seed=1, logprobs=True, top_logprobs=2, max_tokens=5)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        for choice in answer.choices:
            self.assertLessEqual(len(choice.logprobs.content), 5)
            self.assertEqual(len(choice.logprobs.content[0].top_logprobs), 2)
        again = openai_client.chat.completions.create(
            model="calf", messages=[CAPITAL], n=3, seed=1, logprobs=True, top_logprobs=2, max_tokens=5)
        self.assertEqual([c.message for c in again.choices], [c.message for c in answer.choices])
        self.assertEqual([c.logprobs for c in again.choices], [c.logprobs for c in answer.choices])

    def test_stops(self):
        answer = self.ask(CAPITAL, stop=["Par"])
        self.assertNotIn("Par", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(self.ask(CAPITAL, max_tokens=2).choices[0].finish_reason, "length")

    def test_errors_are_typed(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(CAPITAL, top_p=7)
        self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask({"role": "user", "content": "word " * 6000})
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertIn("4096", str(caught.exception))
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=server.url + "/v1", api_key="no", max_retries=0).models.list()
        with self.assertRaises(openai.NotFoundError):
            openai_client.embeddings.create(model="calf", input="x")


class OpenAiOthers(unittest.TestCase):
    def test_models(self):
        (model,) = openai_client.models.list().data
        self.assertEqual(model.id, "calf")
        self.assertEqual(openai_client.models.retrieve("calf").id, "calf")
        with self.assertRaises(openai.NotFoundError):
            openai_client.models.retrieve("gpt-4")

    def test_completions(self):
        fields = {"model": "calf", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 12}
        whole = openai_client.completions.create(**fields, logprobs=2)
        self.assertEqual(len(whole.choices[0].logprobs.tokens), whole.usage.completion_tokens)
        streamed = "".join(c.choices[0].text for c in openai_client.completions.create(**fields, stream=True)
                           if c.choices)
        self.assertEqual(streamed, whole.choices[0].text)
        echo = openai_client.completions.create(**fields, echo=True)
        self.assertEqual(echo.choices[0].text, "Once upon a time" + whole.choices[0].text)
        two = openai_client.completions.create(**{**fields, "prompt": ["Once upon a time", "The fox"]})
        self.assertEqual([c.index for c in two.choices], [0, 1])
        self.assertEqual(two.choices[0].text, whole.choices[0].text)

    def test_responses(self):
        fields = {"model": "calf", "temperature": 0}
        answer = openai_client.responses.create(input="What is the capital of France?", **fields)
        self.assertIn("Paris", answer.output_text)
        self.assertEqual(answer.status, "completed")
        with openai_client.responses.stream(input="What is the capital of France?", **fields) as stream:
            events = list(stream)
            final = stream.get_final_response()
        self.assertEqual(final.output_text, answer.output_text)
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual([e.sequence_number for e in events if hasattr(e, "sequence_number")],
                         sorted({e.sequence_number for e in events if hasattr(e, "sequence_number")}))

    def test_responses_with_thinking(self):
        answer = openai_client.responses.create(model="calf", temperature=0, input="What is 91 + 30?",
                                                reasoning={"effort": "low", "summary": "auto"},
                                                include=["reasoning.encrypted_content"])
        self.assertEqual(answer.output[0].type, "reasoning")
        self.assertGreater(answer.usage.output_tokens_details.reasoning_tokens, 0)

    def test_responses_with_tools(self):
        tools = [{"type": "function", "strict": False, **f} for f in FUNCTIONS]
        fields = {"model": "calf", "temperature": 0, "tools": tools + [{"type": "web_search"}],
                  "reasoning": {"effort": "high"}}
        question = [{"role": "user", "content": QUESTION}]
        answer = openai_client.responses.create(input=question, **fields)
        (call,) = [item for item in answer.output if item.type == "function_call"]
        self.assertEqual(json.loads(call.arguments), CALL_ARGUMENTS)
        reply = openai_client.responses.create(
            input=question + [item.model_dump(exclude_none=True) for item in answer.output] +
            [{"type": "function_call_output", "call_id": call.call_id, "output": "done"}], **fields)
        self.assertNotIn("DSML", reply.output_text)
        with openai_client.responses.stream(input=question, **fields) as stream:
            done = [e for e in stream if e.type == "response.function_call_arguments.done"]
        self.assertEqual(json.loads(done[0].arguments), CALL_ARGUMENTS)

    def test_responses_in_json(self):
        answer = openai_client.responses.create(
            model="calf", input="Who are you?", temperature=0,
            text={"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}})
        jsonschema.validate(json.loads(answer.output_text), PERSON)


class AnthropicMessages(unittest.TestCase):
    TOOLS = [{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]} for f in FUNCTIONS]
    THINKING = {"type": "enabled", "budget_tokens": 200}

    def fields(self, *messages, **more):
        # The client has no parameter for the temperature any more; the API has.
        return {"model": "claude-calf", "max_tokens": 300, "extra_body": {"temperature": 0},
                "messages": list(messages), **more}

    def test_answers(self):
        answer = anthropic_client.messages.create(**self.fields(CAPITAL))
        self.assertIn("Paris", answer.content[0].text)
        self.assertEqual(answer.stop_reason, "end_turn")
        with anthropic_client.messages.stream(**self.fields(CAPITAL)) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[0].text, answer.content[0].text)
        self.assertEqual(final.usage.output_tokens, answer.usage.output_tokens)

    def test_thinks(self):
        fields = self.fields({"role": "user", "content": "What is 91 + 30?"},
                             thinking={"type": "enabled", "budget_tokens": 200})
        answer = anthropic_client.messages.create(**fields)
        self.assertEqual([block.type for block in answer.content][:1], ["thinking"])
        self.assertTrue(answer.content[0].signature)
        with anthropic_client.messages.stream(**fields) as stream:
            self.assertEqual(stream.get_final_message().content[0].type, "thinking")
        again = anthropic_client.messages.create(**self.fields(
            {"role": "user", "content": "What is 91 + 30?"},
            {"role": "assistant", "content": [b.model_dump() for b in answer.content]}, CAPITAL))
        self.assertTrue(again.content)

    def test_uses_tools(self):
        for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": CALL_NAME}):
            answer = anthropic_client.messages.create(**self.fields(ASK, tools=self.TOOLS, tool_choice=choice, thinking=self.THINKING))
            self.assertEqual(answer.stop_reason, "tool_use")
            (use,) = [block for block in answer.content if block.type == "tool_use"]
            self.assertEqual(use.input, CALL_ARGUMENTS)
        with anthropic_client.messages.stream(**self.fields(ASK, tools=self.TOOLS, thinking=self.THINKING)) as stream:
            final = stream.get_final_message()
        self.assertEqual([b.input for b in final.content if b.type == "tool_use"], [CALL_ARGUMENTS])
        reply = anthropic_client.messages.create(**self.fields(
            ASK, {"role": "assistant", "content": [b.model_dump() for b in answer.content]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "done"}]},
            tools=self.TOOLS, thinking=self.THINKING))
        self.assertFalse(any("DSML" in getattr(block, "text", "") for block in reply.content))

    def test_counts_tokens(self):
        count = anthropic_client.messages.count_tokens(model="claude-calf", messages=[CAPITAL])
        answer = anthropic_client.messages.create(**self.fields(CAPITAL))
        usage = answer.usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_stops(self):
        answer = anthropic_client.messages.create(**self.fields(CAPITAL, stop_sequences=["Par"]))
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", "Par"))
        answer = anthropic_client.messages.create(**self.fields(CAPITAL, max_tokens=2))
        self.assertEqual(answer.stop_reason, "max_tokens")

    def test_errors_are_typed(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            anthropic_client.messages.create(**self.fields({"role": "robot", "content": "x"}))
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=server.url, api_key="no", max_retries=0).messages.create(
                **self.fields(CAPITAL))


class Plain(unittest.TestCase):
    AUTH = {"Authorization": "Bearer " + KEY}

    def test_health_needs_no_key(self):
        self.assertEqual(server.request("/health")[0], 200)
        self.assertEqual(server.request("/metrics")[0], 401)
        self.assertEqual(server.request("/v1/models", headers={"x-api-key": KEY})[0], 200)

    def test_tells_of_itself(self):
        self.assertEqual(server.request("/health_generate", headers=self.AUTH)[0], 200)
        info = server.request("/server_info", headers=self.AUTH)[2]
        self.assertEqual(info["model"], "calf")
        self.assertTrue(info["cache"]["pools"])
        self.assertIn("version", server.request("/version", headers=self.AUTH)[2])
        metrics = server.request("/metrics", headers=self.AUTH)[2]
        for name in ("num_requests_running", "generation_tokens_total", "time_to_first_token_seconds_count"):
            self.assertRegex(metrics, rf"(?m)^cachalot:{name} \d")
        self.assertIn("<!doctype html>", server.request("/")[2].lower())

    def test_tokenizes(self):
        tokens = server.request("/tokenize", {"prompt": "Hello there"}, self.AUTH)[2]["tokens"]
        text = server.request("/detokenize", {"tokens": tokens}, self.AUTH)[2]["prompt"]
        self.assertEqual(text, "Hello there")
        chat = server.request("/tokenize", {"messages": [CAPITAL], "return_token_strs": True}, self.AUTH)[2]
        self.assertEqual(len(chat["token_strs"]), chat["count"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
