package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// mostTurns limits an agent's conversation with its model, mostTokens each turn of the model.
const (
	mostTurns  = 30
	mostTokens = 4096
)

// message and block are types of the messages API.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type block struct {
	Type      string          `json:"type"` // text | tool_use | tool_result
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// converse runs a model on a task with tools until it calls none. It returns the model's last message.
func converse(ctx context.Context, instructions, task string, tools *toolkit) (string, error) {
	messages := []message{{Role: "user", Content: []block{{Type: "text", Text: task}}}}
	for range mostTurns {
		blocks, err := ask(ctx, instructions, messages, tools)
		if err != nil {
			return "", err
		}
		messages = append(messages, message{Role: "assistant", Content: blocks})
		var text []string
		var results []block
		for _, b := range blocks {
			switch b.Type {
			case "text":
				text = append(text, b.Text)
			case "tool_use":
				fmt.Println(strings.TrimRight("  "+b.Name+" "+gist(b.Input), " "))
				result, failed, err := tools.call(ctx, b.Name, b.Input)
				if err != nil {
					return "", err
				}
				results = append(results, block{Type: "tool_result", ToolUseID: b.ID, Content: result, IsError: failed})
			}
		}
		if len(results) == 0 {
			return strings.TrimSpace(strings.Join(text, "\n")), nil
		}
		messages = append(messages, message{Role: "user", Content: results})
	}
	return "", fmt.Errorf("the model is not done after %d turns", mostTurns)
}

// gist summarises a call's input: the path, or the command.
func gist(input json.RawMessage) string {
	var given struct {
		Path string   `json:"path"`
		Cmd  []string `json:"cmd"`
	}
	_ = json.Unmarshal(input, &given) // written by the model
	return cmp.Or(given.Path, strings.Join(given.Cmd, " "))
}

// ask requests the model's next turn.
func ask(ctx context.Context, instructions string, messages []message, tools *toolkit) ([]block, error) {
	offered := []map[string]any{}
	for _, t := range tools.list {
		offered = append(offered, map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.InputSchema})
	}
	body, err := json.Marshal(map[string]any{
		"model": os.Getenv("ANTHROPIC_MODEL"), "max_tokens": mostTokens, "system": instructions, "messages": messages, "tools": offered,
	})
	if err != nil {
		return nil, err
	}
	base := cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), "https://api.anthropic.com")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 2000)) // the status is enough
		return nil, fmt.Errorf("the model answers %s: %s", resp.Status, why)
	}
	var answer struct {
		Content []block `json:"content"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the model's answer: %w", err)
	}
	return answer.Content, nil
}
