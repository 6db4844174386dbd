#!/bin/sh
# Asks a model a question, runs the code of its tool call in a sandbox, and sends it the output. It does so by hand, to show the
# protocol; the other examples use programs.
set -eu
tools='[{"type": "function", "function": {"name": "python", "description": "Runs Python code",
  "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}}}]'
messages=$(jq -n --arg question "$1" '[{role: "user", content: $question}]')
for _ in 1 2 3 4 5 6 7 8; do
    answer=$(jq -n --arg model "$OPENAI_MODEL" --argjson tools "$tools" --argjson messages "$messages" '{$model, $tools, $messages}' |
        curl -sS --fail-with-body -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' -d @- \
            "$OPENAI_BASE_URL/chat/completions")
    message=$(echo "$answer" | jq '.choices[0].message')
    messages=$(echo "$messages" | jq --argjson message "$message" '. + [$message]')
    call=$(echo "$message" | jq '.tool_calls[0] // empty')
    [ -n "$call" ] || break
    code=$(echo "$call" | jq -r '.function.arguments | fromjson | .code')
    echo "> $code"
    printed=$(echo "$code" | belljar run --quiet --lang py - 2>&1) || true # a failure is for the model to read
    messages=$(echo "$messages" | jq --arg id "$(echo "$call" | jq -r .id)" --arg printed "$printed" \
        '. + [{role: "tool", tool_call_id: $id, content: $printed}]')
done
echo "$message" | jq -r .content
