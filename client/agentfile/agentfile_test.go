package agentfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func parse(t *testing.T, text string) File {
	t.Helper()
	f, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%+v", err, err)
	}
	return f
}

// front returns a file with this frontmatter.
func front(lines ...string) string {
	return "---\n" + strings.Join(lines, "\n") + "\n---\nbody\n"
}

// TestSpecification parses a complete agent file and checks its toolset.
func TestSpecification(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "developer.prompt"))
	if err != nil {
		t.Fatal(err)
	}
	f := parse(t, string(raw))
	want := &Sandbox{
		Mode: belljar.ToolsCode, Runtime: "python", Image: "python:3.11-slim",
		Limits: Limits{CPUMillicores: 1000, MemoryMB: 2048, TimeoutSeconds: 600, WorkspaceMB: 500},
	}
	if !reflect.DeepEqual(f.Sandbox, want) {
		t.Errorf("%+v", f.Sandbox)
	}
	if !strings.HasPrefix(f.Body, "\nYou are a Python developer agent.") || !strings.HasSuffix(f.Body, "{{userInput}}\n") {
		t.Errorf("%q", f.Body)
	}
	var meta struct {
		Model    string
		Metadata struct{ Name, Description string }
	}
	if err := f.Meta.Decode(&meta); err != nil || meta.Model != "openai/gpt-4o" || meta.Metadata.Name != "Python Developer" {
		t.Errorf("%+v %v", meta, err)
	}
	var all map[string]any
	if err := f.Meta.Decode(&all); err != nil || len(all) != 2 {
		t.Errorf("%v %v", all, err)
	}
	tools, err := f.Sandbox.Toolset(ExecutionContext{WorkflowRunID: "run_1", AgentRunID: "agent_1"})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tools, belljar.Toolset{
		Mode: belljar.ToolsCode, Language: "python", Image: "python:3.11-slim", IdleTimeoutSec: 600, Workflow: "run_1",
		Resources: belljar.Resources{CPU: 1, MemoryMB: 2048, WorkspaceMB: 500},
	}) || tools.Scope().String() != "workflow:run_1:default" {
		t.Errorf("%+v", tools)
	}
	if got := f.Sandbox.Tools(); len(got) != 11 || got[0] != "sandbox_open" || got[10] != "sandbox_close" {
		t.Errorf("%v", got)
	}
}

func TestShapes(t *testing.T) {
	full := Sandbox{
		Mode: belljar.ToolsCode, Runtime: "node", Image: "node:20", Session: "build",
		Limits: Limits{CPUMillicores: 1500, MemoryMB: 8, TimeoutSeconds: 1, WorkspaceMB: 1}, TimeoutSeconds: 300,
	}
	block := []string{
		"sandbox:", "  mode: code", "  runtime: node", `  image: "node:20"`, "  session: build",
		"  limits:", "    cpu_millicores: 1500", "    memory_mb: 8", "    timeout_seconds: 1", "    workspace_mb: 1",
		"  network:", "    enabled: false", "  timeout_seconds: 300", "  allow_network: false", "  pip_packages: []",
	}
	for name, test := range map[string]struct {
		text string
		want *Sandbox
		body string
	}{
		"no frontmatter":           {"just a prompt\n---\nwith a rule\n", nil, "just a prompt\n---\nwith a rule\n"},
		"nothing":                  {"", nil, ""},
		"only lines":               {"\n\n", nil, "\n\n"},
		"an empty frontmatter":     {"---\n---\nbody\n", nil, "body\n"},
		"only a comment":           {"---\n# none\n---\nbody\n", nil, "body\n"},
		"no sandbox":               {front("model: x"), nil, "body\n"},
		"null":                     {front("sandbox:"), nil, "body\n"},
		"short":                    {front("sandbox: python"), &Sandbox{Runtime: "python"}, "body\n"},
		"a mapping with nothing":   {front("sandbox: {}"), &Sandbox{}, "body\n"},
		"first version":            {front("sandbox:", "  runtime: python", "  timeout_seconds: 300"), &Sandbox{Runtime: "python", TimeoutSeconds: 300}, "body\n"},
		"everything":               {front(block...), &full, "body\n"},
		"windows":                  {"\uFEFF" + strings.ReplaceAll(front(block...), "\n", "\r\n"), &full, "body\r\n"},
		"lines before":             {"\n \r\n" + front("sandbox: bash"), &Sandbox{Runtime: "bash"}, "body\n"},
		"blanks behind the dashes": {"--- \nsandbox: bash\n---\t\nbody\n", &Sandbox{Runtime: "bash"}, "body\n"},
		"no line end behind":       {"---\nsandbox: bash\n---", &Sandbox{Runtime: "bash"}, ""},
		"more dashes in the body":  {front("sandbox: bash") + "---\nsandbox: node\n---\n", &Sandbox{Runtime: "bash"}, "body\n---\nsandbox: node\n---\n"},
		"values that are null":     {front("sandbox:", "  mode: ", "  image: ~", "  limits: null"), &Sandbox{}, "body\n"},
		"an alias":                 {front("shared: &s {runtime: ruby}", "sandbox: *s"), &Sandbox{Runtime: "ruby"}, "body\n"},
		"an alias inside":          {front("n: &n 100", "sandbox: {limits: {memory_mb: *n}}"), &Sandbox{Limits: Limits{MemoryMB: 100}}, "body\n"},
		"default in mode compute":  {front("sandbox: {session: default}"), &Sandbox{Session: "default"}, "body\n"},
		"dashes in a block":        {front("text: |", "  ---", "sandbox: bash"), &Sandbox{Runtime: "bash"}, "body\n"},
		"another language":         {front("sandbox: C++"), &Sandbox{Runtime: "C++"}, "body\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, test.text)
			if f.Sandbox != nil && len(f.Sandbox.PipPackages) == 0 {
				f.Sandbox.PipPackages = nil
			}
			if !reflect.DeepEqual(f.Sandbox, test.want) || f.Body != test.body {
				t.Errorf("%+v %q", f.Sandbox, f.Body)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	bomb := []string{"a: &a [x, x, x, x, x, x, x, x, x, x]"}
	for i := range 6 {
		above, name := string(rune('a'+i)), string(rune('b'+i))
		bomb = append(bomb, name+": &"+name+" ["+strings.Repeat("*"+above+", ", 9)+"*"+above+"]")
	}
	for name, test := range map[string]struct {
		text string
		want []string // parts of the message or the hint
	}{
		"no end":                    {"---\nsandbox: python\nbody\n", []string{"line 1: the frontmatter has no end", "---"}},
		"no yaml":                   {front("model: x", "sandbox: [python"), []string{"not YAML", "line"}},
		"tabs":                      {front("sandbox:", "\tmode: code"), []string{"not YAML", "line 3"}},
		"a list":                    {front("- sandbox"), []string{"line 2: the frontmatter must map"}},
		"two documents":             {front("a: 1", "...", "b: 1"), []string{"more than one document"}},
		"sandbox twice":             {front("sandbox: python", "model: x", "sandbox: node"), []string{"line 4: sandbox is there already, in line 2"}},
		"model twice":               {front("model: python", "model: x"), []string{"line 3: model is there already"}},
		"a number":                  {front("sandbox: 3"), []string{"line 2: sandbox must be a text"}},
		"a flag":                    {front("sandbox: true"), []string{"line 2: sandbox must be a text"}},
		"a list of runtimes":        {front("sandbox: [python]"), []string{"line 2: sandbox must be a mapping", "sandbox: python"}},
		"nothing in quotes":         {front(`sandbox: ""`), []string{"line 2: sandbox is empty"}},
		"a runtime":                 {front("model: x", "sandbox: pyhton"), []string{`line 3: sandbox.runtime "pyhton" is not known`, "python, node, bash, typescript"}},
		"a runtime inside":          {front("sandbox:", "  runtime: cobol"), []string{`line 3: sandbox.runtime "cobol" is not known`, "python"}},
		"a mode":                    {front("sandbox:", "  mode: persistent"), []string{`line 3: sandbox.mode "persistent" is not known, it is compute or code`}},
		"a mode by case":            {front("sandbox:", "  mode: Code"), []string{`"Code"`}},
		"a key":                     {front("sandbox:", "  mode: code", "  immage: x"), []string{"line 4: sandbox.immage is not known", "did you mean image"}},
		"a key of limits":           {front("sandbox:", "  limits:", "    memory: 5"), []string{"line 4: sandbox.limits.memory is not known", "did you mean memory_mb"}},
		"a foreign key of limits":   {front("sandbox:", "  limits:", "    colour: 5"), []string{"line 4: sandbox.limits.colour is not known", "sandbox.limits has cpu_millicores, memory_mb"}},
		"a key of network":          {front("sandbox:", "  network:", "    enable: true"), []string{"line 4: sandbox.network.enable is not known", "did you mean enabled"}},
		"a key twice":               {front("sandbox:", "  mode: code", "  mode: compute"), []string{"line 4: sandbox.mode is there already, in line 3"}},
		"a merged key":              {front("x: &x {mode: code}", "sandbox:", "  <<: *x"), []string{"line 4: sandbox.<< is not known"}},
		"merged in":                 {front("x: &x {sandbox: python}", "<<: *x"), []string{"line 3: sandbox cannot come from a merged mapping"}},
		"merged in by two":          {front("x: &x {sandbox: python}", "y: &y {<<: *x}", "<<: [*y]"), []string{"line 4: sandbox cannot come"}},
		"a key that is a list":      {front("sandbox:", "  [a]: b"), []string{"line 3: sandbox has a key that is not a word"}},
		"limits as a number":        {front("sandbox:", "  limits: 5"), []string{"line 3: sandbox.limits must be a mapping"}},
		"negative":                  {front("sandbox:", "  limits:", "    memory_mb: -1"), []string{"line 4: sandbox.limits.memory_mb must be from 8 to", "not -1"}},
		"zero":                      {front("sandbox:", "  limits:", "    cpu_millicores: 0"), []string{"line 4: sandbox.limits.cpu_millicores must be from 10 to"}},
		"absurd":                    {front("sandbox:", "  limits:", "    workspace_mb: 99999999999"), []string{"line 4: sandbox.limits.workspace_mb must be from 1 to"}},
		"beyond numbers":            {front("sandbox:", "  timeout_seconds: 99999999999999999999999"), []string{"line 3: sandbox.timeout_seconds must be a whole number"}},
		"a fraction":                {front("sandbox:", "  timeout_seconds: 1.5"), []string{"must be a whole number"}},
		"a number in quotes":        {front("sandbox:", `  timeout_seconds: "5"`), []string{"must be a whole number"}},
		"rules without a network":   {front("sandbox:", "  network: {allow: [a.example]}"), []string{"line 3: sandbox.network.allow needs network.enabled"}},
		"presets without a network": {front("sandbox:", "  network: {presets: [pip]}"), []string{"line 3: sandbox.network.presets needs network.enabled"}},
		"not a flag":                {front("sandbox:", "  allow_network: yes"), []string{"line 3: sandbox.allow_network must be true or false"}},
		"an image with a blank":     {front("sandbox:", "  image: python 3"), []string{"line 3: sandbox.image"}},
		"a long image":              {front("sandbox:", "  image: "+strings.Repeat("x", 600)), []string{"is longer than 512 bytes"}},
		"a long session":            {front("sandbox:", "  mode: code", "  session: "+strings.Repeat("x", 300)), []string{"line 4: sandbox.session longer than 256 bytes"}},
		"a session in compute":      {front("sandbox:", "  session: build"), []string{"line 3: sandbox.session needs mode code", "mode: code"}},
		"idle time in compute":      {front("sandbox:", "  limits: {timeout_seconds: 5}"), []string{"line 3: sandbox.limits.timeout_seconds is the idle time", "next to limits"}},
		"packages as a text":        {front("sandbox:", "  pip_packages: numpy"), []string{"line 3: sandbox.pip_packages must be a list"}},
		"packages that are no text": {front("sandbox:", "  npm_packages: [1]"), []string{"sandbox.npm_packages must be a text"}},
		"a value of a secret":       {front("sandbox:", "  secrets:", "    T: {value: hunter2hunter2}"), []string{"line 4: sandbox.secrets.T.value is not known", "from, header, host, template"}},
		"a secret without a source": {front("sandbox:", "  secrets: {T: {host: a.example}}"), []string{"line 3: sandbox.secrets.T needs from", "belljar secret set"}},
		"a secret as a text":        {front("sandbox:", "  secrets: {T: token}"), []string{"line 3: sandbox.secrets.T must be a mapping"}},
		"secrets in a list":         {front("sandbox:", "  secrets: [T]"), []string{"line 3: sandbox.secrets must be a mapping"}},
		"a name of a secret":        {front("sandbox:", "  secrets: {a-b: {from: x}}"), []string{`line 3: sandbox.secrets "a-b" is not the name of a secret`}},
		"a host without a network":  {front("sandbox:", "  secrets: {T: {from: x, host: a.example}}"), []string{"line 3: sandbox.secrets.T.host", "network.enabled: true, and list a.example in network.allow"}},
		"a header":                  {front("sandbox:", "  network: {enabled: true, allow: [a.example]}", "  secrets:", "    T: {from: x, host: a.example, header: Host}"), []string{"line 5: sandbox.secrets.T.header"}},
		"git over ssh":              {front("sandbox:", "  git: {url: 'ssh://git.example/a'}"), []string{"line 3: sandbox.git.url", "https"}},
		"git without a URL":         {front("sandbox:", "  git: {ref: main}"), []string{"line 3: sandbox.git.url"}},
		"git with a patch":          {front("sandbox:", "  git: {url: 'https://git.example/a', patch: x}"), []string{"line 3: sandbox.git.patch is not known"}},
		"git with a stray secret":   {front("sandbox:", "  git: {url: 'https://git.example/a', secret: T}"), []string{"line 3: sandbox.git.secret"}},
		"a bomb":                    {front(bomb...), []string{"more than 10000 values"}},
		"an endless alias":          {front("a: &a [*a]"), []string{"contains itself"}},
		"not UTF-8":                 {"---\nsandbox: \xff\n---\n", []string{"not UTF-8"}},
		"UTF-16":                    {"\xff\xfe-\x00-\x00-\x00\n\x00", []string{"not UTF-8"}},
		"a long frontmatter":        {front("x: " + strings.Repeat("y", MaxFrontmatterBytes)), []string{"the frontmatter is longer than 65536 bytes"}},
		"deep":                      {front("x: " + strings.Repeat("[", 20_000)), []string{"not YAML"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(strings.NewReader(test.text))
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest {
				t.Fatalf("%+v %v", f, err)
			}
			if !reflect.DeepEqual(f, File{}) {
				t.Errorf("a file all the same: %+v", f)
			}
			for _, want := range test.want {
				if !strings.Contains(e.Message+"\n"+e.Hint, want) {
					t.Errorf("%q is not in %q, hint %q", want, e.Message, e.Hint)
				}
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := Parse(strings.NewReader(front("sandbox:", "  mdoe: code", "  limits: {memory_mb: -1}", "  runtime: 3")))
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if list, _ := e.Details["problems"].([]string); len(list) != 3 || e.Details["line"] != 3 || e.Details["field"] != "sandbox.mdoe" {
			t.Errorf("%+v", e.Details)
		}
	})
	t.Run("too long", func(t *testing.T) {
		_, err := Parse(strings.NewReader(strings.Repeat("x", MaxBytes+1)))
		if belljar.CodeOf(err) != belljar.CodeTooLarge {
			t.Error(err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		_, err := Parse(broken{})
		if belljar.CodeOf(err) != belljar.CodeInvalidRequest || !errors.Is(err, errBroken) {
			t.Error(err)
		}
	})
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// TestScope tests docs/compatibility.md#scopes.
func TestScope(t *testing.T) {
	for name, test := range map[string]struct {
		session string
		run     ExecutionContext
		scope   string // "" if no other run can find it
	}{
		"workflow":               {"", ExecutionContext{WorkflowRunID: "w"}, "workflow:w:default"},
		"workflow, named":        {"build", ExecutionContext{WorkflowRunID: "w", AgentRunID: "a"}, "workflow:w:build"},
		"workflow, default":      {"default", ExecutionContext{WorkflowRunID: "w"}, "workflow:w:default"},
		"workflow, isolated":     {"isolated", ExecutionContext{WorkflowRunID: "w"}, ""},
		"agent":                  {"", ExecutionContext{AgentRunID: "a"}, "agent:a:default"},
		"agent, named":           {"build", ExecutionContext{AgentRunID: "a"}, "agent:a:default"},
		"agent, isolated":        {"isolated", ExecutionContext{AgentRunID: "a"}, ""},
		"neither":                {"build", ExecutionContext{}, ""},
		"a colon in the id":      {"", ExecutionContext{WorkflowRunID: "a:b"}, "workflow:a%3Ab:default"},
		"a colon in the session": {"x:y", ExecutionContext{WorkflowRunID: "w"}, "workflow:w:x%3Ay"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Sandbox{Mode: belljar.ToolsCode, Session: test.session}
			tools, err := s.Toolset(test.run)
			if err != nil || tools.Scope().String() != test.scope {
				t.Errorf("%q %+v %v", tools.Scope(), tools, err)
			}
			if tools.Workflow != "" && tools.Agent != "" {
				t.Errorf("two at once: %+v", tools)
			}
			if test.session == belljar.DefaultKey && tools.Session != "" {
				t.Errorf("%q in the file binds the model: %+v", test.session, tools)
			}
		})
	}
	s := &Sandbox{Mode: belljar.ToolsCode}
	for _, id := range []string{strings.Repeat("x", 300), "a\nb", "\xff"} {
		if _, err := s.Toolset(ExecutionContext{WorkflowRunID: id}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

// TestTools tests docs/compatibility.md#two-modes.
func TestTools(t *testing.T) {
	var none *Sandbox
	if got := none.Tools(); got != nil {
		t.Errorf("no sandbox: %v", got)
	}
	if _, err := none.Toolset(ExecutionContext{}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
	for mode, want := range map[belljar.ToolMode]int{"": 1, belljar.ToolsCompute: 1, belljar.ToolsCode: 11} {
		if got := (&Sandbox{Mode: mode}).Tools(); len(got) != want {
			t.Errorf("%q: %v", mode, got)
		}
	}
}

// TestToolset: unsupported settings are refused, and a sandbox made by a program is checked like one from a file.
func TestToolset(t *testing.T) {
	for field, text := range map[string]string{
		"network.enabled": "network: {enabled: true}", "allow_network": "allow_network: true",
	} {
		_, err := parse(t, front("sandbox:", "  "+text)).Sandbox.Toolset(ExecutionContext{})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodePolicyDenied || e.Details["field"] != "sandbox."+field || e.Hint == "" {
			t.Errorf("%s: %+v", text, err)
		}
	}
	for name, s := range map[string]*Sandbox{
		"mode": {Mode: "x"}, "runtime": {Runtime: "x y"}, "image": {Image: "a b"}, "limits.memory_mb": {Limits: Limits{MemoryMB: -1}},
		"timeout_seconds": {TimeoutSeconds: -1}, "session": {Mode: belljar.ToolsCode, Session: "\x00"},
		"pip_packages": {PipPackages: []string{"a;b"}}, "npm_packages": {NpmPackages: []string{"git+https://x"}},
	} {
		_, err := s.Toolset(ExecutionContext{})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != "sandbox."+name {
			t.Errorf("%s: %v", name, err)
		}
	}
	wanted, err := parse(t, front("sandbox:", "  pip_packages: [numpy, pandas>=2]", "  npm_packages: [left-pad]")).Sandbox.Toolset(ExecutionContext{})
	if err != nil || !slices.Equal(wanted.Packages.Pip, []string{"numpy", "pandas>=2"}) || !slices.Equal(wanted.Packages.Npm, []string{"left-pad"}) {
		t.Errorf("%+v, %v", wanted.Packages, err)
	}
	kept, err := parse(t, front("sandbox:", "  network: {enabled: true, allow: [api.example.com]}", "  secrets:",
		"    API_TOKEN: {from: api_token, host: api.example.com, header: X-Api-Key, template: '{}'}", "    DEPLOY: {from: deploy}",
		"  git: {url: 'https://git.example/a.git', ref: main, depth: 3, keep_git: true, keep_ignored: true, secret: DEPLOY}")).Sandbox.Toolset(ExecutionContext{})
	if err != nil || !reflect.DeepEqual(kept.Secrets, map[string]belljar.Secret{
		"API_TOKEN": {From: "api_token", Host: "api.example.com", Header: "X-Api-Key", Template: "{}"}, "DEPLOY": {From: "deploy"},
	}) || !reflect.DeepEqual(kept.Git, &belljar.GitSpec{URL: "https://git.example/a.git", Ref: "main", Depth: 3, KeepGit: true, KeepIgnored: true, Secret: "DEPLOY"}) {
		t.Errorf("%+v %+v %v", kept.Secrets, kept.Git, err)
	}
	s := &Sandbox{Runtime: "Python", TimeoutSeconds: 5, Limits: Limits{CPUMillicores: 250}}
	tools, err := s.Toolset(ExecutionContext{})
	if err != nil || !reflect.DeepEqual(tools, belljar.Toolset{
		Mode: belljar.ToolsCompute, Language: "python", TimeoutSec: 5, Resources: belljar.Resources{CPU: 0.25},
	}) {
		t.Errorf("%+v %v", tools, err)
	}
	open := "sandbox: {network: {enabled: true, allow: [api.example.com, '*.example.org', 203.0.113.0/24, '2001:db8::7']}}"
	tools, err = parse(t, front(open)).Sandbox.Toolset(ExecutionContext{})
	want := belljar.Egress{Hosts: []string{"api.example.com", "*.example.org"}, CIDRs: []string{"203.0.113.0/24"}, IPs: []string{"2001:db8::7"}}
	if err != nil || !tools.Network || !reflect.DeepEqual(tools.Egress, want) {
		t.Errorf("%+v %v", tools, err)
	}
	tools, err = parse(t, front("sandbox: {network: {enabled: true, presets: [pip, npm]}}")).Sandbox.Toolset(ExecutionContext{})
	if err != nil || !tools.Network || !reflect.DeepEqual(tools.Egress, belljar.Egress{Presets: []string{"pip", "npm"}}) {
		t.Errorf("%+v %v", tools, err)
	}
	if got := Runtimes(); !slices.Contains(got, "python") || !slices.Contains(got, "c++") || slices.Contains(got, "javascript") || slices.Contains(got, "shell") {
		t.Errorf("%v", got)
	}
}
