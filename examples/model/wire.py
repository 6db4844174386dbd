"""Two protocols of models, limited to the parts for tools, with the checks of the real ones."""

import json
import re

KEY = "scripted"


class Refused(Exception):
    """A request that no model would accept."""


class Request:
    """The contents of a request, in either protocol."""

    def __init__(self, tools, told, added):
        self.tools = tools  # names
        self.told = told    # all text except the model's own
        self.added = added  # the text since its last turn


def need(true, words):
    if not true:
        raise Refused(words)


def load(body):
    try:
        request = json.loads(body)
    except ValueError as e:
        raise Refused(f"the body is no JSON: {e}") from None
    need(isinstance(request, dict), "the body is no object")
    need(isinstance(request.get("model"), str) and request["model"], "model is missing")
    need(not request.get("stream"), "streaming is not played here")
    need(isinstance(request.get("messages"), list) and request["messages"], "messages is missing or empty")
    return request


def check_tool(name, schema):
    need(isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name), f"{name!r} is no name for a tool")
    need(isinstance(schema, dict) and schema.get("type") == "object", f"the schema of {name} is not one of an object")
    properties = schema.get("properties", {})
    need(isinstance(properties, dict), f"the properties of {name} are no object")
    for field in schema.get("required", []):
        need(field in properties, f"{name} requires {field}, which is none of its properties")


class OpenAI:
    """POST /v1/chat/completions."""

    @staticmethod
    def allows(headers):
        return headers.get("Authorization") == "Bearer " + KEY

    @staticmethod
    def error(message):
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}

    @staticmethod
    def read(body):
        request = load(body)
        tools = []
        for tool in request.get("tools", []):
            need(tool.get("type") == "function", "a tool is not of type function")
            function = tool.get("function", {})
            check_tool(function.get("name"), function.get("parameters", {"type": "object"}))
            tools.append(function["name"])
        waiting = set()  # calls without a result
        told, added = [], []
        for i, message in enumerate(request["messages"]):
            role, content = message.get("role"), message.get("content")
            need(role in ("system", "developer", "user", "assistant", "tool"), f"messages[{i}] has the role {role!r}")
            if role == "tool":
                need(message.get("tool_call_id") in waiting, f"messages[{i}] answers a call that was not made")
                waiting.discard(message["tool_call_id"])
            else:
                need(not waiting, f"messages[{i}] comes before the calls {sorted(waiting)} are answered")
            if role == "assistant":
                added = []
                for call in message.get("tool_calls") or []:
                    json.loads(call["function"]["arguments"])
                    waiting.add(call["id"])
                need(content or waiting, f"messages[{i}] says nothing")
            else:
                need(isinstance(content, str), f"messages[{i}] has no text")
                told.append(content)
                added.append(content)
        need(not waiting, f"the calls {sorted(waiting)} are not answered")
        return Request(tools, "\n".join(told), "\n".join(added))

    @staticmethod
    def answer(turn, text, calls):
        message = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{turn}_{i}", "type": "function",
                 "function": {"name": call["name"], "arguments": json.dumps(call["input"])}}
                for i, call in enumerate(calls)
            ]
        return {
            "id": f"chatcmpl-{turn}", "object": "chat.completion", "created": 0, "model": "scripted",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }


class Anthropic:
    """POST /v1/messages."""

    @staticmethod
    def allows(headers):
        return headers.get("x-api-key") == KEY and bool(headers.get("anthropic-version"))

    @staticmethod
    def error(message):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    @staticmethod
    def read(body):
        request = load(body)
        need(isinstance(request.get("max_tokens"), int) and request["max_tokens"] > 0, "max_tokens is missing")
        tools = []
        for tool in request.get("tools", []):
            check_tool(tool.get("name"), tool.get("input_schema"))
            tools.append(tool["name"])
        waiting, told, added = set(), [], [request.get("system", "")]
        for i, message in enumerate(request["messages"]):
            role, content = message.get("role"), message.get("content")
            need(role == ("user", "assistant")[i % 2], f"messages[{i}] has the role {role!r}: user and assistant take turns")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            need(isinstance(content, list) and content, f"messages[{i}] has no content")
            if role == "assistant":
                added = []
                waiting = {block["id"] for block in content if block["type"] == "tool_use"}
                continue
            for block in content:
                if block["type"] == "tool_result":
                    need(block.get("tool_use_id") in waiting, f"messages[{i}] answers a call that was not made")
                    waiting.discard(block["tool_use_id"])
                    text = block.get("content", "")
                else:
                    need(block["type"] == "text" and block.get("text"), f"messages[{i}] has an empty text")
                    need(not waiting, f"messages[{i}] has text before its tool results")
                    text = block["text"]
                told.append(text)
                added.append(text)
            need(not waiting, f"messages[{i}] leaves the calls {sorted(waiting)} without an answer")
        need(request["messages"][-1]["role"] == "user", "the last message is not the user's")
        return Request(tools, "\n".join(told), "\n".join(added))

    @staticmethod
    def answer(turn, text, calls):
        content = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "tool_use", "id": f"toolu_{turn}_{i}", "name": call["name"], "input": call["input"]}
            for i, call in enumerate(calls)
        ]
        return {
            "id": f"msg_{turn}", "type": "message", "role": "assistant", "model": "scripted", "content": content,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }


DIALECTS = {"/v1/chat/completions": OpenAI, "/v1/messages": Anthropic}
