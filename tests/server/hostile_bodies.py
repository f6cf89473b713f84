"""Requests of every dialect with all their members, and what may be put in the place of any of them."""

import copy
import json

LONG = "A" * 5000
VALUES = ["null", "true", "-1", "1e400", "1" + "0" * 30, "18446744073709551615", "-0.5", '"x"', "[]", "{}",
          '{"a": [{"b": [null, {"c": {}}]}]}', "[[[0]]]", f'"{LONG}"', f'{{"{LONG}": 0}}', f'["{LONG}"]']

FUNCTION = {"name": "f", "description": "d",
            "parameters": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}},
            "strict": False}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9},
                                           "b": {"enum": ["p", 1]}}, "required": ["a"],
          "additionalProperties": False}
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0, "frequency_penalty": 0,
            "presence_penalty": 0, "repetition_penalty": 1, "seed": 1, "logit_bias": {"5": 1},
            "stop_token_ids": [5], "ignore_eos": False, "min_tokens": 0, "stream": False}
OPENAI = {**SAMPLING, "model": "calf", "max_tokens": 1, "n": 1, "timeout": 60, "stop": ["zz"],
          "user": "u", "stream_options": None}
THINKING = {"reasoning_effort": "low", "thinking_budget": 2, "enable_thinking": True,
            "chat_template_kwargs": {"thinking": True, "reasoning_effort": "low"}}

CHAT = {
    **OPENAI, **THINKING, "logprobs": True, "top_logprobs": 1, "return_progress": False,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "Hi", "reasoning_content": "Hm",
         "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"}],
    "tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "auto",
    "parallel_tool_calls": True,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}}
OLD_CHAT = {
    "messages": [{"role": "user", "content": "Hello"},
                 {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
                 {"role": "function", "name": "f", "content": "done"}],
    "functions": [FUNCTION], "function_call": {"name": "f"}, "max_completion_tokens": 1}
COMPLETIONS = {**OPENAI, "prompt": ["Hello", [5, 6]], "logprobs": 1, "echo": True, "suffix": None, "best_of": 1,
               "response_format": {"type": "json_object"}}
RESPONSES = {
    **SAMPLING, "model": "calf", "max_output_tokens": 1, "instructions": "Be brief.",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
              {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}],
               "encrypted_content": "x"},
              {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
              {"type": "function_call_output", "call_id": "call_1", "output": "done"},
              {"type": "message", "role": "user", "content": "Go on"}],
    "tools": [{"type": "function", **FUNCTION}, {"type": "custom", "name": "c", "format": {"type": "text"}},
              {"type": "namespace", "name": "space", "tools": [{"type": "function", "name": "g"}]},
              {"type": "local_shell"}, {"type": "web_search"}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "parallel_tool_calls": True, "reasoning": {"effort": "low", "summary": "auto"}, "top_logprobs": 1,
    "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}, "store": False, "background": False,
    "previous_response_id": None, "truncation": "auto"}
MESSAGES = {
    "model": "calf", "max_tokens": 1, "system": [{"type": "text", "text": "Be brief."}], "temperature": 0.5,
    "top_p": 0.9, "top_k": 4, "stop_sequences": ["zz"], "stream": False, "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 2}, "service_tier": "auto",
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello"},
                                     {"type": "document", "title": "t", "source": {"type": "text", "data": "x"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": "s"},
                                          {"type": "text", "text": "Hi"},
                                          {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": "b"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
                                      "content": [{"type": "text", "text": "done"}]}]}],
    "tools": [{"name": "f", "description": "d", "input_schema": FUNCTION["parameters"], "strict": False},
              {"type": "bash_20250124", "name": "bash"}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": False}}

BODIES = [("/v1/chat/completions", CHAT), ("/v1/chat/completions", OLD_CHAT), ("/v1/completions", COMPLETIONS),
          ("/v1/responses", RESPONSES), ("/v1/messages", MESSAGES),
          ("/v1/messages/count_tokens", {k: MESSAGES[k] for k in ("messages", "tools", "system")}),
          ("/tokenize", {"prompt": "Hello", "return_token_strs": True}),
          ("/tokenize", {"messages": [{"role": "user", "content": "Hello"}]}),
          ("/detokenize", {"tokens": [5, 6]})]


def places(value, path=()):
    """Of every value within `value`."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield path + (key,)
        yield from places(member, path + (key,))


def with_text_at(body, path, text):
    """`body` as JSON with `text`, be it JSON or not, in the place `path`."""
    changed = copy.deepcopy(body)
    owner = changed
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = "\x01"
    return json.dumps(changed).replace('"\\u0001"', text).encode()


def faults(status, body, path):
    """What is wrong with an error's body; None where nothing is."""
    error = json.loads(body)["error"]
    if path.startswith("/v1/messages"):
        if json.loads(body).get("type") != "error" or set(error) != {"type", "message"}:
            return "no error of Anthropic's"
    elif set(error) != {"message", "type", "param", "code"}:
        return "no error of OpenAI's"
    if not isinstance(error["message"], str) or not isinstance(error["type"], str) or not error["message"]:
        return "no message or type"
    if b"A" * 201 in body or len(body) > 2000:
        return "repeats too much of what was sent"
    return None
