package workspace

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// decision is the answer of a client to a question of the program. Front ends have several names for each part.
type decision struct {
	Behavior    string          `json:"behavior"`
	Decision    string          `json:"decision"`
	Allow       *bool           `json:"allow"`
	Approved    *bool           `json:"approved"`
	Message     string          `json:"message"`
	Reason      string          `json:"reason"`
	Updated     json.RawMessage `json:"updatedInput"`
	Snake       json.RawMessage `json:"updated_input"`
	Tool        json.RawMessage `json:"tool_input"`
	Suggestions json.RawMessage `json:"permission_suggestions"`
	Answers     json.RawMessage `json:"answers"`
}

// has reports whether a message has a field with a value.
func has(field json.RawMessage) bool { return len(field) > 0 && string(field) != "null" }

// decided reports whether the answer allows or denies what the program requests. If it does both, it denies.
func (d decision) decided() (allows, denies bool) {
	for _, word := range []string{d.Behavior, d.Decision} {
		allows = allows || slices.Contains([]string{"allow", "grant", "always", "approve", "approved"}, word)
		denies = denies || slices.Contains([]string{"deny", "reject", "block"}, word)
	}
	for _, flag := range []*bool{d.Allow, d.Approved} {
		allows, denies = allows || flag != nil && *flag, denies || flag != nil && !*flag
	}
	return allows && !denies, denies
}

// answer returns the line for the answer to a question of the program. The program's own form stays as it is.
func (m message) answer(raw []byte) (any, error) {
	var own struct {
		Subtype   string `json:"subtype"`
		RequestID string `json:"request_id"`
	}
	within := m.Type == "control_response" && has(m.Response)
	if within && json.Unmarshal(m.Response, &own) == nil && own.Subtype != "" && own.RequestID != "" {
		return map[string]any{"type": m.Type, "response": m.Response}, nil
	}
	id := cmp.Or(m.RequestID, m.ToolID)
	if id == "" {
		return nil, errors.New("request_id is missing")
	}
	response := map[string]json.RawMessage{}
	if within {
		if raw = m.Response; json.Unmarshal(raw, &response) != nil {
			return nil, errors.New("response is not an object")
		}
	}
	var d decision
	if json.Unmarshal(raw, &d) != nil {
		return nil, errors.New("a field of the message has the wrong type")
	}
	if has(d.Answers) {
		response["answers"] = d.Answers
	}
	allows, denies := d.decided()
	switch {
	case allows:
		d.allow(response, within)
	case denies, m.Type == "approval_response":
		response["behavior"] = json.RawMessage(`"deny"`)
		response["message"], _ = json.Marshal(cmp.Or(d.Message, d.Reason, "User denied permission")) // a string
	case has(d.Answers): // to a question of the program, and no permission
	default: // nothing is allowed by default
		return nil, errors.New("response.behavior is neither allow nor deny")
	}
	return map[string]any{
		"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": id, "response": response},
	}, nil
}

// allow makes the response one that allows. within means that the client has sent one, which needs no input.
func (d decision) allow(response map[string]json.RawMessage, within bool) {
	response["behavior"] = json.RawMessage(`"allow"`)
	if i := slices.IndexFunc([]json.RawMessage{d.Updated, d.Snake, d.Tool}, has); i >= 0 {
		response["updatedInput"] = []json.RawMessage{d.Updated, d.Snake, d.Tool}[i]
	} else if !within {
		response["updatedInput"] = json.RawMessage("{}")
	}
	if has(d.Suggestions) {
		response["permission_suggestions"] = d.Suggestions
		if d.Behavior == "always" || d.Decision == "always" { // the name by which the program keeps them
			response["updatedPermissions"] = d.Suggestions
		}
	}
}
