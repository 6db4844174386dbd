//go:build linux

package examples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// modelled gives the example's chat a scripted model over HTTPS, which accepts only requests with the key. Its address is private: the
// script in the copy allows it.
func modelled(t *testing.T, dir string) []string {
	t.Helper()
	p := peer.Start(t, "api.example.com")
	p.Handle("/v1/messages", func(w http.ResponseWriter, r *http.Request) {
		answer, err := play(r)
		if err != nil {
			t.Errorf("the model is asked what it refuses: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"role": "assistant", "content": answer})
	})
	chat, authority := filepath.Join(dir, "chat.sh"), filepath.Join(t.TempDir(), "ca.pem")
	script, err := os.ReadFile(chat)
	if err == nil {
		err = os.WriteFile(chat, []byte(strings.Replace(string(script), `--allow "$host"`, `--allow "$host" --allow `+p.Address, 1)), 0o755)
	}
	if err == nil {
		err = os.WriteFile(authority, p.CA, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"SANDBOX_EGRESS_RESOLVER=" + p.Resolver, "SANDBOX_EGRESS_ALLOW=api.example.com," + p.Address, "SANDBOX_EGRESS_PRIVATE=true",
		"SANDBOX_EGRESS_CA_FILE=" + authority, "SSL_CERT_FILE=" + authority,
	}
}

// message is a message of a conversation with a model.
type message struct {
	Role    string
	Content []block
}

// block is a part of a message.
type block struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitempty"`
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Input     map[string]any `json:"input,omitempty"`
	ToolUseID string         `json:"tool_use_id,omitempty"`
	Content   string         `json:"content,omitempty"`
}

// play returns the scripted model's answer. It is as strict as a real one: it requires the key, alternating roles, and results for all
// calls.
func play(r *http.Request) ([]block, error) {
	var q struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		Messages  []message
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	if keys := r.Header["X-Api-Key"]; !slices.Equal(keys, []string{"correct-horse-battery"}) || q.Model != "small" || q.MaxTokens == 0 || len(q.Messages) == 0 {
		return nil, fmt.Errorf("%q %+v", keys, q)
	}
	open := "" // the call without a result so far
	for i, m := range q.Messages {
		result := m.Content[0].ToolUseID
		if m.Role != []string{"user", "assistant"}[i%2] || m.Role == "user" && result != open {
			return nil, fmt.Errorf("message %d is %+v", i, m)
		}
		open = m.Content[len(m.Content)-1].ID
	}
	text := func(s string) block { return block{Type: "text", Text: s} }
	run := func(command string) block {
		return block{Type: "tool_use", ID: fmt.Sprintf("call-%d", len(q.Messages)), Name: "Bash", Input: map[string]any{"command": command}}
	}
	last := q.Messages[len(q.Messages)-1].Content[0]
	switch {
	case last.Text == "What is here?":
		return []block{text("Let me look."), run("ls; env | grep ^MODEL_KEY=")}, nil
	case last.Text == "Wait for me.":
		return []block{run("sleep 1000")}, nil
	case last.Text == "Remove it all.":
		return []block{run("rm -rf .")}, nil
	case last.Text == "Are you there?" && len(q.Messages) == 9: // all turns are present except the interrupted one
		return []block{text("Yes.")}, nil
	case strings.HasPrefix(last.Content, "chat.py\nMODEL_KEY=belljar-secret-"):
		return []block{text("A program, and a placeholder for a key.")}, nil
	case last.Content == "The user does not allow it.":
		return []block{text("As you like.")}, nil
	}
	return nil, fmt.Errorf("%d messages, the last one with %+v", len(q.Messages), last)
}
