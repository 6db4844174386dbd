package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// kinds has a field of every kind.
type kinds struct {
	Text  string             `json:"text,omitempty"`
	Bytes []byte             `json:"bytes,omitempty"`
	Int   int                `json:"int,omitempty"`
	Small int8               `json:"small,omitempty"`
	Count uint16             `json:"count,omitempty"`
	Real  float64            `json:"real,omitempty"`
	Yes   bool               `json:"yes,omitempty"`
	List  []string           `json:"list,omitempty"`
	Map   map[string]int     `json:"map,omitempty"`
	Any   any                `json:"any,omitempty"`
	Free  map[string]any     `json:"free,omitempty"`
	When  *time.Time         `json:"when,omitempty"`
	Inner *belljar.TokenSpec `json:"inner,omitempty"`
}

func TestDecode(t *testing.T) {
	tests := map[string]string{ // to the error message, "" if the body is valid
		`{}`:                              "",
		`{"text": "a\u0000\ud83d\ude00"}`: "",
		`{"text": null, "list": null}`:    "",
		`{"any": {"a": [1, null, {}]}, "free": {"x": {"y": 1e400}}}`: "the body cannot be read",
		`{"any": {"a": 1, "a": 2}}`:                                  "any.a is given twice",
		`{"map": {"a": 1, "a": 2}}`:                                  "map.a is given twice",
		`{"map": {"a": null}}`:                                       "map.a must be a whole number, got null",
		`{"list": [null]}`:                                           "list[0] must be a string, got null",
		`{"list": {}}`:                                               "list must be an array, got an object",
		`{"list": ["a", ["b"]]}`:                                     "list[1] must be a string, got an array",
		`{"map": []}`:                                                "map must be an object, got an array",
		`{"yes": "true"}`:                                            "yes must be a boolean, got a string",
		`{"yes": 1}`:                                                 "yes must be a boolean, got a number",
		`{"text": true}`:                                             "text must be a string, got a boolean",
		`{"text": 1}`:                                                "text must be a string, got a number",
		`{"int": "1"}`:                                               "int must be a whole number, got a string",
		`{"int": 1.0}`:                                               "int must be a whole number, got 1.0",
		`{"int": 1e2}`:                                               "int must be a whole number, got 1e2",
		`{"int": 99999999999999999999}`:                              "int is out of range",
		`{"small": 128}`:                                             "small is out of range",
		`{"small": -128}`:                                            "",
		`{"count": -1}`:                                              "count must not be negative",
		`{"count": 65536}`:                                           "count is out of range",
		`{"real": 1e999}`:                                            "real is out of range",
		`{"real": 1e-999}`:                                           "",
		`{"bytes": "aGk="}`:                                          "",
		`{"bytes": "aGk"}`:                                           "bytes is not valid base64",
		`{"bytes": [1]}`:                                             "bytes must be a base64 string, got an array",
		`{"when": "2026-11-21T12:00:00Z"}`:                           "",
		`{"when": "soon"}`:                                           "the body cannot be read",
		`{"when": 5}`:                                                "when must be a string, got a number",
		`{"inner": {}}`:                                              "inner.user_id is missing",
		`{"inner": {"user_id": null}}`:                               "inner.user_id is missing",
		`{"inner": {"user_id": "a", "rol": ""}}`:                     `unknown field "inner.rol"`,
		`{"Text": "a"}`:                                              `unknown field "Text"`,
		`{"": 1}`:                                                    `unknown field ""`,
		``:                                                           "the body is empty",
		" \n\t":                                                      "the body is empty",
		`null`:                                                       "the body must be an object, got null",
		`"text"`:                                                     "the body must be an object, got a string",
		`{"text": "a"`:                                               "the body is not valid JSON at byte 12",
		`{"text": "a"}}`:                                             "the body is not valid JSON at byte 13",
		`{"text": "a"} {}`:                                           "the body is not valid JSON at byte 14",
		`{"text": 'a'}`:                                              "the body is not valid JSON at byte 9",
		`{"text": "a",}`:                                             "the body is not valid JSON at byte 13",
		`{"int": 01}`:                                                "the body is not valid JSON at byte 9",
		`{"int": NaN}`:                                               "the body is not valid JSON at byte 8",
		"\xef\xbb\xbf{}":                                             "the body is not valid JSON at byte 0",
		"{\"text\": \"\xff\"}":                                       "the body is not valid UTF-8 at byte 10",
		"{\"text\": \"\xed\xa0\x80\"}":                               "the body is not valid UTF-8 at byte 10",
		`{"text": "\ud800"}`:                                         "half a surrogate pair at byte 10",
		`{"text": "\ude00\ud83d"}`:                                   "half a surrogate pair at byte 10",
		`{"text": "\ud83d\u0041"}`:                                   "half a surrogate pair at byte 10",
		`{"text": "\\ud800"}`:                                        "",
		`{"text": "\"{[[["}`:                                         "",
	}
	s := shapeOf(reflect.TypeFor[kinds]())
	for body, want := range tests {
		err := decode([]byte(body), s, new(kinds))
		if want == "" && err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || belljar.CodeOf(err) != belljar.CodeInvalidRequest) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// A limit of 0 is below the minimum. The default applies only if the field is missing. Other numbers may be 0.
func TestExplicitZero(t *testing.T) {
	run, session := shapeOf(reflect.TypeFor[belljar.RunSpec]()), shapeOf(reflect.TypeFor[belljar.SessionSpec]())
	for field, s := range map[string]*shape{
		"resources.cpu": run, "resources.memory_mb": run, "resources.pids": run, "resources.nofile": run, "resources.nproc": run,
		"resources.workspace_mb": run, "resources.log_bytes": run, "resources.artifact_mb": session, "startup_timeout_sec": run,
		"timeout_sec": session, "cpu_time_sec": run, "stdin_max_bytes": run, "stdin_max_frame_bytes": run, "stdin_bps": run, "stdin_idle_timeout_sec": run,
	} {
		for _, zero := range []string{"0", "0.0", "-0", "0e5", "null"} {
			if s.at(field).kind == whole && strings.ContainsAny(zero, ".e") {
				continue
			}
			body := fmt.Sprintf(`{"spec_version": "1.0", "base_image": "host", %q: %s}`, field, zero)
			if inner, ok := strings.CutPrefix(field, "resources."); ok {
				body = fmt.Sprintf(`{"spec_version": "1.0", "base_image": "host", "resources": {%q: %s}}`, inner, zero)
			}
			err := decode([]byte(body), s, new(map[string]any))
			var e *belljar.Error
			switch {
			case zero == "null" && err != nil:
				t.Errorf("%s: %v", body, err)
			case zero == "null":
			case !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != field || !strings.Contains(e.Message, field+" must be at least ") || e.Hint == "":
				t.Errorf("%s: %v", body, err)
			}
		}
	}
	err := decode([]byte(`{"port": 0}`), shapeOf(reflect.TypeFor[belljar.PreviewSpec]()), new(map[string]any))
	if !strings.Contains(fmt.Sprint(err), "port must be at least 1, got 0") || belljar.HintOf(err) != "" {
		t.Errorf("a field that is needed: %v, hint %q", err, belljar.HintOf(err))
	}
	for body, s := range map[string]*shape{
		`{"resume_from_seq": 0, "files": [{"path": "x", "content_b64": "", "mode": 0}]}`:                                          run,
		`{"base_image": "host", "ttl_sec": 0, "lifetime_sec": 0, "idle_timeout_sec": 0, "max_runs": 0, "max_concurrent_runs": 0}`: session,
	} {
		if err := decode([]byte(body), s, new(map[string]any)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// at returns the shape of a field, also of one in resources.
func (s *shape) at(field string) *shape {
	for _, name := range strings.Split(field, ".") {
		s = s.fields[name]
	}
	return s
}

// The minimums in the OpenAPI document are those that the service enforces.
func TestLeastValues(t *testing.T) {
	resources := shapeOf(reflect.TypeFor[belljar.RunSpec]())
	for field, ask := range map[string]func(belljar.Resources, float64) (belljar.Resources, float64, float64){
		"resources.cpu": func(r belljar.Resources, v float64) (belljar.Resources, float64, float64) { r.CPU = v; return r, 0, 0 },
		"resources.memory_mb": func(r belljar.Resources, v float64) (belljar.Resources, float64, float64) {
			r.MemoryMB = int(v)
			return r, 0, 0
		},
		"resources.nofile": func(r belljar.Resources, v float64) (belljar.Resources, float64, float64) {
			r.NoFile = int(v)
			return r, 0, 0
		},
		"startup_timeout_sec": func(r belljar.Resources, v float64) (belljar.Resources, float64, float64) { return r, v, 0 },
		"timeout_sec":         func(r belljar.Resources, v float64) (belljar.Resources, float64, float64) { return r, 0, v },
	} {
		least, err := strconv.ParseFloat(resources.at(field).least, 64)
		if err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		for v, fine := range map[float64]bool{least: true, -1: false} {
			r, startup, timeout := ask(belljar.Resources{}, v)
			if _, err := belljar.DefaultLimits().Resolve(r, startup, timeout, belljar.MaxLimits()); (err == nil) != fine {
				t.Errorf("%s of %v: %v", field, v, err)
			} else if !fine && !strings.Contains(err.Error(), "at least "+resources.at(field).least+" ") {
				t.Errorf("%s of %v: %v, but the document says %v", field, v, err, least)
			}
		}
	}
}

func TestDecodeDepth(t *testing.T) {
	s := shapeOf(reflect.TypeFor[kinds]())
	nested := func(n int) []byte {
		return []byte(`{"any": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	if err := decode(nested(maxDepth-1), s, new(kinds)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	for _, n := range []int{maxDepth, 1_000_000} {
		if err := decode(nested(n), s, new(kinds)); err == nil || !strings.Contains(err.Error(), "nested deeper than 64 levels") {
			t.Errorf("%d levels: %v", n+1, err)
		}
	}
}

func TestDecodeManyValues(t *testing.T) {
	s := shapeOf(reflect.TypeFor[kinds]())
	body := func(n int) []byte { return []byte(`{"any": [` + strings.Repeat("1,", n) + `1]}`) }
	if err := decode(body(maxValues-3), s, new(kinds)); err != nil { // the body, the array and one more are values too
		t.Errorf("%d values: %v", maxValues, err)
	}
	for _, n := range []int{maxValues - 2, 1_000_000} {
		if err := decode(body(n), s, new(kinds)); err == nil || !strings.Contains(err.Error(), "more than 65536 values") {
			t.Errorf("%d values: %v", n+3, err)
		}
	}
}

// FuzzDecode checks that a body that decode accepts has the same value for encoding/json, and that every error is an
// invalid request.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"spec_version": "1.0", "base_image": "host", "command": ["a", "b"], "env": {"A": "b"}, "files": [{"path": "p", "content_b64": "aGk="}]}`,
		`{"resources": {"cpu": 0.5, "memory_mb": 512}, "stdin_bps": 5, "interactive": true, "resume_from_seq": 7}`,
		`{"command": null, "labels": {}}`, `[[[[[[`, `{"stdin": "\ud83d\ude00"}`, "{\"a\":\"\xff\"}", `{"command":["a"],"command":["b"]}`,
	} {
		f.Add([]byte(seed))
	}
	s := shapeOf(reflect.TypeFor[belljar.RunSpec]())
	f.Fuzz(func(t *testing.T, data []byte) {
		var got belljar.RunSpec
		if err := decode(data, s, &got); err != nil {
			if code := belljar.CodeOf(err); code != belljar.CodeInvalidRequest {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		var want belljar.RunSpec
		strict := json.NewDecoder(strings.NewReader(string(data)))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", data, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %+v, want %+v", data, got, want)
		}
	})
}

// FuzzQuery checks that every error of Query is an invalid request, for all names, even an empty one.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"base_image=&=null", "=", "q=a&q=b", "%00=1", "limit=1;x", "a%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := &http.Request{URL: &url.URL{RawQuery: raw}}
		if _, err := Query(r, "q", "limit", "base_image"); err != nil && belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Fatalf("%q: code %s: %v", raw, belljar.CodeOf(err), err)
		}
	})
}
