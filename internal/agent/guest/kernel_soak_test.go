//go:build linux && soak

package guest_test

import (
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// pictures counts the pictures that a cell has shown.
func (c cell) pictures() (n int) {
	for _, r := range c.results {
		text, _ := r.Data["image/png"].(string)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil && strings.HasPrefix(string(raw), "\x89PNG\r\n") {
			n++
		}
	}
	return n
}

// Output of the real libraries is shown without configuration, with IPython and without.
func TestSoakLibraries(t *testing.T) {
	for _, module := range []string{"pandas", "matplotlib", "PIL", "IPython"} {
		if out, err := exec.Command("/usr/bin/python3", "-c", "import "+module).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", module, err, out)
		}
	}
	for _, kernel := range []string{wire.KernelPython, wire.KernelIPython} {
		t.Run(kernel, func(t *testing.T) {
			n := begin(t, guest.Config{}).notebook(kernel)
			n.spec.Env[0] = "PATH=/usr/bin:/bin"
			libraries(n)
			if kernel == wire.KernelIPython {
				magics(n)
			}
		})
	}
}

func libraries(n *notebook) {
	rows := func(code string, want, total int) {
		n.Helper()
		c := n.run(code)
		if len(c.results) != 1 {
			n.Fatalf("%q: %+v", code, c)
		}
		raw, _ := json.Marshal(c.results[0].Data["application/vnd.dataresource+json"])
		var table struct {
			Data   []map[string]any
			Schema struct{ Fields []any }
			Total  int `json:"total_rows"`
		}
		if err := json.Unmarshal(raw, &table); err != nil || len(table.Data) != want || table.Total != total || len(table.Schema.Fields) < 2 || c.exit.Code != 0 {
			n.Errorf("%q: %d rows of %d, %v, %+v", code, len(table.Data), table.Total, err, c.exit)
		}
	}
	rows("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['<x>', None], 'c': pd.to_datetime(['2024-01-01', None]), 'd': [1+2j, b'']})\ndf", 2, 2)
	if c := n.run("df"); !strings.Contains(c.results[0].Data["text/html"].(string), "<td>&lt;x&gt;") || !strings.Contains(c.plain(), "<x>") {
		n.Errorf("%+v", c.results)
	}
	rows("df.a", 2, 2)
	rows("pd.DataFrame({'a': range(5000)})", 1000, 5000)
	rows("df.groupby('a').agg({'b': ['count', 'max']}).droplevel(0, axis=1)", 2, 2)
	// Equal or missing names of columns and of the index become different keys.
	for code, want := range map[string]string{
		"pd.DataFrame([[1, 2]], columns=['a', 'a'])":                            `[{"a":1,"a.1":2,"index":0}]`,
		"pd.DataFrame({1: [1], '1': [2]})":                                      `[{"1":1,"1.1":2,"index":0}]`,
		"pd.DataFrame({'a': [7]}, index=['r']).reset_index()":                   `[{"a":7,"index":"r","index.1":0}]`,
		"pd.DataFrame({'a': [7]}).set_index('a', drop=False)":                   `[{"a":7,"a.1":7}]`,
		"pd.DataFrame({('a', 'b'): [1], ('a', 'c'): [2]})":                      `[{"a.b":1,"a.c":2,"index":0}]`,
		"pd.DataFrame({'index': [1]}, index=pd.Index([3], name='index'))":       `[{"index":1,"index.1":3}]`,
		"pd.DataFrame({'f': [1.234567890123]}, index=[('x', 1), ('y', 2)][:1])": `[{"f":1.234567890123,"index":["x",1]}]`,
		// Floats are exact, and so are times to the microsecond.
		"pd.DataFrame({'f': [float('inf'), 3.4567e-14, 0.1 + 0.2, None]}, index=[1e-20, 2, 3, float('-inf')])": `[{"f":"inf","index":1e-20},{"f":3.4567e-14,"index":2},{"f":0.30000000000000004,"index":3},{"f":null,"index":"-inf"}]`,
		"pd.DataFrame({'o': ['x', 1e-20], 't': pd.to_datetime(['2024-01-01 00:00:00.123456'] * 2)})":           `[{"index":0,"o":"x","t":"2024-01-01T00:00:00.123456"},{"index":1,"o":1e-20,"t":"2024-01-01T00:00:00.123456"}]`,
		"pd.DataFrame({'n': pd.array([1e-20, None], 'Float64'), 'c': pd.Categorical([float('inf'), 0.5])})":    `[{"c":"inf","index":0,"n":1e-20},{"c":0.5,"index":1,"n":null}]`,
		"pd.Series([1], index=pd.MultiIndex.from_tuples([(2, 3)]), name='s')":                                  `[{"level_0":2,"level_1":3,"s":1}]`,
	} {
		c := n.run(code)
		if len(c.results) != 1 || c.errs != "" {
			n.Errorf("%q: %+v", code, c)
			continue
		}
		var table map[string]any
		raw, _ := json.Marshal(c.results[0].Data["application/vnd.dataresource+json"])
		_ = json.Unmarshal(raw, &table)
		if got, _ := json.Marshal(table["data"]); string(got) != want {
			n.Errorf("%q: %s, want %s", code, got, want)
			continue
		}
		row, _ := table["data"].([]any)[0].(map[string]any)
		fields, _ := table["schema"].(map[string]any)["fields"].([]any)
		for _, f := range fields {
			if name, _ := f.(map[string]any)["name"].(string); row[name] == nil {
				n.Errorf("%q: no %q in %+v", code, name, row)
			}
		}
	}
	n.wants("df = pd.DataFrame({'a': [7]}); df", "   a\n0  7")
	n.wants("list(df.columns), df.index.name", "(['a'], None)") // showing it does not change it
	for code, want := range map[string]int{
		"df.plot()": 1,
		"import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.figure(); plt.hist([1, 2, 2])": 2,
		"import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show(); print('after')":        1,
		"import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1]); fig":         1,
		"import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); display(fig)":              1,
		"from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1, 2]); f":     1,
		"from PIL import Image\nImage.new('RGB', (9, 9), 'red')":                               1,
		"from PIL import Image\ndisplay(Image.new('L', (9, 9)), Image.new('RGBA', (9, 9)))":    2,
		"from PIL import Image\nImage.new('CMYK', (9, 9))":                                     1,
		"from IPython.display import display, Image, HTML; display(HTML('<b>'))":               0,
		"import numpy as np; np.zeros((1000, 1000))":                                           0,
		"import matplotlib.pyplot as plt; plt.get_fignums()":                                   0,
	} {
		if c := n.run(code); c.pictures() != want || c.exit.Code != 0 || c.errs != "" {
			n.Errorf("%q: %d pictures, %+v, %q", code, c.pictures(), c.exit, c.errs)
		}
	}
	if e := n.fails("df['nothing']", "KeyError"); !strings.HasPrefix(e.Frames[0].File, "<cell ") || len(e.Frames) < 3 {
		n.Errorf("%+v", e)
	}
}

// magics tests features that only IPython has.
func magics(n *notebook) {
	n.wants("%timeit -n1 -r1 -q -o 1\n5", "5")
	n.wants("'a'.upper?", "")
	n.wants("x = 41;", "")
	n.wants("x; 7;", "")
	n.wants("x + 1", "42")
	n.wants("_ + 1", "43")
	n.wants("import asyncio\nawait asyncio.sleep(0, 'awaited')", "'awaited'")
	n.wants("out = !echo {x}\nlist(out)", "['41']")
	if c := n.run("!echo from a shell\n%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);"); c.out != "from a shell\n" || c.pictures() != 1 || c.errs != "" {
		n.Errorf("%+v", c)
	}
	if c := n.run("%%bash\necho $((1 + 1))"); c.out != "2\n" {
		n.Errorf("%+v", c)
	}
	if e := n.fails("1\ndef f(): 1 / 0\nf()", "ZeroDivisionError"); len(e.Frames) != 2 || e.Frames[0].Line != 3 || e.Frames[1].Source != "def f(): 1 / 0" || strings.Contains(e.Traceback, "IPython/") {
		n.Errorf("%+v", e)
	}
	n.fails("if True", "SyntaxError")
	n.fails("%pip install six", "PermissionError")
	if c := n.run("import sys; sys.exit(3)"); c.exit.Code != 3 || c.exit.Shell.Replaced || c.errs != "" {
		n.Errorf("%+v", c)
	}
	for _, code := range []string{"exit", "quit()"} {
		if c := n.run(code); c.exit.Code != 0 || c.exit.Shell.Replaced || c.errs != "" {
			n.Errorf("%q: %+v", code, c)
		}
	}
	n.fails("input('?')", "EOFError")
	for _, code := range []string{"while True: pass", "import time; time.sleep(1000)", "await asyncio.sleep(1000)", "!sleep 1000"} {
		l := n.exec(n.cell("print('up', flush=True)\n" + code))
		n.follow(l, "up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
			n.Errorf("%q: %+v", code, c)
		}
	}
	n.wants("x", "41")
	done := n.cell("x; import o")
	done.Shell.Complete = true
	if c := n.follow(n.exec(done), ""); len(c.results) != 1 {
		n.Errorf("%+v", c)
	}
	if c := n.run("import os; os.listdir(os.path.expanduser('~'))"); strings.Contains(c.plain(), ".ipython") {
		n.Errorf("%+v", c)
	}
}
