package scenario

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// File is a scenario.
type File struct {
	Version int    `json:"version"`
	Steps   []Step `json:"steps"`
}

// Step is one operation and its expected result.
type Step struct {
	Name   string            `json:"step"`
	Do     string            `json:"do"`
	With   Args              `json:"with"`
	Save   string            `json:"save"`   // name by which later steps refer to the id
	Want   json.RawMessage   `json:"want"`   // the result
	Except map[string]string `json:"except"` // by driver: reason why it skips this step
}

// Args are the arguments of operations; each operation uses some of them.
type Args struct {
	Run     string `json:"run"`     // "$name" for a saved id
	Session string `json:"session"` // likewise

	Command        []string          `json:"command"`
	Code           string            `json:"code"`
	Language       string            `json:"language"`
	Cmd            string            `json:"cmd"` // of a shell
	Cwd            string            `json:"cwd"`
	Env            map[string]string `json:"env"`
	Stdin          Bytes             `json:"stdin"`
	Files          map[string]Bytes  `json:"files"`
	TimeoutSec     float64           `json:"timeout_sec"`
	MemoryMB       int               `json:"memory_mb"`
	Image          string            `json:"image"`
	Capture        []string          `json:"capture"`
	IdempotencyKey string            `json:"idempotency_key"`

	Piece int    `json:"piece"` // frames to read in one piece; 0 is all
	Until string `json:"until"` // text of stdout that ends the reading

	Scope  belljar.Scope `json:"scope"`
	TTLSec float64       `json:"ttl_sec"`
	Prefix string        `json:"prefix"`

	Path      string `json:"path"`
	Contents  Bytes  `json:"contents"`
	Overwrite bool   `json:"overwrite"`
	Recursive bool   `json:"recursive"`
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"`
}

// Bytes are written as text, {"base64": …} or {"repeat": text, "times": n}, and in results as text, {"base64": …} or, if
// they are long, {"bytes": n, "sha256": …}.
type Bytes []byte

// longest is the maximum number of bytes that a result spells out.
const longest = 1024

// UnmarshalJSON reads all forms but the hash.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*b = Bytes(text)
		return nil
	}
	var form struct {
		Base64 []byte `json:"base64"`
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
	}
	if err := strict(raw, &form); err != nil {
		return err
	}
	*b = append(form.Base64, strings.Repeat(form.Repeat, form.Times)...)
	return nil
}

// MarshalJSON writes the forms of results.
func (b Bytes) MarshalJSON() ([]byte, error) {
	switch {
	case len(b) > longest:
		sum := sha256.Sum256(b)
		return json.Marshal(map[string]any{"bytes": len(b), "sha256": hex.EncodeToString(sum[:])})
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string]any{"base64": base64.StdEncoding.EncodeToString(b)})
}

// Read reads a scenario and refuses unknown fields: a driver must not skip parts that it does not know.
func Read(name string) (File, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return File{}, err
	}
	var file File
	if err := strict(raw, &file); err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	if file.Version != 1 {
		return File{}, fmt.Errorf("%s: version %d is not known", name, file.Version)
	}
	names := map[string]bool{}
	for _, step := range file.Steps {
		if names[step.Name] {
			return File{}, fmt.Errorf("%s: two steps are called %q", name, step.Name)
		}
		names[step.Name] = true
	}
	return file, nil
}

func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Line is the output of a driver for a step.
type Line struct {
	Step   string `json:"step"`
	Result any    `json:"result"`
}

// Result is the result of a step, by field.
type Result map[string]any

// door is one client of a server. An operation's error is a result if it is a [belljar.Error]; any other error ends the
// driver.
type door interface {
	name() string
	do(ctx context.Context, step Step) (Result, error)
}

// play runs the steps of a file through a door and prints the results.
func play(ctx context.Context, file File, d door, w io.Writer) error {
	seen := map[string]string{}  // step in which an id was first seen
	saved := map[string]string{} // ids by the name that a step has saved
	out := json.NewEncoder(w)
	for _, step := range file.Steps {
		if _, except := step.Except[d.name()]; except {
			continue
		}
		for _, id := range []*string{&step.With.Run, &step.With.Session} {
			if name, ok := strings.CutPrefix(*id, "$"); ok {
				if *id, ok = saved[name]; !ok {
					return fmt.Errorf("%s: nothing was saved as %q", step.Name, name)
				}
			}
		}
		result, err := d.do(ctx, step)
		if refusal := (*belljar.Error)(nil); errors.As(err, &refusal) {
			result = Result{"error": Result{"code": refusal.Code, "hint": belljar.HintOf(err) != ""}}
		} else if err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
		for _, field := range []string{"run", "session"} {
			id, ok := result[field].(string)
			if !ok {
				continue
			}
			if step.Save != "" {
				saved[step.Save] = id
			}
			if first, ok := seen[id]; ok {
				result[field] = first
			} else {
				seen[id], result[field] = step.Name, "new"
			}
		}
		if err := out.Encode(Line{step.Name, result}); err != nil {
			return err
		}
	}
	return nil
}
