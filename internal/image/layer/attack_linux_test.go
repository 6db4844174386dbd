package layer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// rig is a folder to unpack in, next to a sentinel that must not change.
type rig struct {
	dir, sentinel string
	before        []string
}

func newRig(t testing.TB) rig {
	t.Helper()
	top := folder(t)
	r := rig{dir: below(t, top, "layer"), sentinel: below(t, top, "sentinel")}
	for name, body := range map[string]string{"passwd": "root", "x": "X"} {
		if err := os.WriteFile(filepath.Join(r.sentinel, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.before = r.look(t)
	return r
}

// look lists the sentinel, and all other files next to the layer.
func (r rig) look(t testing.TB) []string {
	list := look(t, r.sentinel)
	beside, err := os.ReadDir(filepath.Dir(r.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range beside {
		list = append(list, "beside: "+d.Name())
	}
	info, err := os.Stat(filepath.Join(r.sentinel, "x"))
	if err != nil {
		t.Fatal(err)
	}
	return append(list, info.ModTime().String())
}

// untouched checks that nothing outside has changed.
func (r rig) untouched(t testing.TB) {
	t.Helper()
	if diff := cmp.Diff(r.before, r.look(t)); diff != "" {
		t.Errorf("something happened outside:\n%s", diff)
	}
}

// raw returns a ustar header with bytes that no tar writer would write, and its contents.
func raw(change func(block []byte), contents string) []byte {
	b := make([]byte, 512)
	copy(b, "a")
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00", len(contents), 1_700_000_000))
	b[156] = '0'
	copy(b[257:], "ustar\x0000")
	if change != nil {
		change(b)
	}
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(append(b, contents...), make([]byte, (512-len(contents)%512)%512)...)
}

// records is an extended header.
func records(kv ...string) []byte {
	var body strings.Builder
	for i := 0; i < len(kv); i += 2 {
		record := " " + kv[i] + "=" + kv[i+1] + "\n"
		n := len(record)
		for n != len(record)+len(fmt.Sprint(n)) {
			n = len(record) + len(fmt.Sprint(n))
		}
		fmt.Fprint(&body, n, record)
	}
	return raw(func(b []byte) { b[156] = 'x' }, body.String())
}

// gnu returns a long name in GNU tar's format: kind L, or K for a link's target.
func gnu(kind byte, name string) []byte {
	return raw(func(b []byte) { b[156] = kind; copy(b[257:], "ustar  \x00") }, name+"\x00")
}

// binary writes a number in base 256.
func binary(field []byte, n int64) {
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte(n)
		n >>= 8
	}
	field[0] |= 0x80
}

func join(parts ...[]byte) []byte { return bytes.Join(append(parts, make([]byte, 1024)), nil) }

// hostile are layers that break a rule. They are also in the corpus of the fuzz test.
func hostile(t testing.TB) map[string]struct {
	body []byte
	rule string
} {
	type attack = struct {
		body []byte
		rule string
	}
	ar := func(list ...entry) []byte { return tarOf(t, list...) }
	deep := strings.Repeat("d/", 200)
	wide := strings.Repeat(strings.Repeat("w", 200)+"/", 21)
	whole := ar(file("a", strings.Repeat("x", 5000)))
	return map[string]attack{
		"dotdot":                 {ar(file("../x", "evil")), "traversal"},
		"dotdot inside":          {ar(file("a/../x", "evil")), "traversal"},
		"dotdot folder":          {ar(dir("..")), "traversal"},
		"dotdot only":            {ar(file("..", "")), "traversal"},
		"dotdot whiteout":        {ar(file("../.wh.x", "")), "traversal"},
		"pax path":               {join(records("path", "../../x"), raw(nil, "evil")), "traversal"},
		"gnu path":               {join(gnu('L', "../../../"+strings.Repeat("y", 120)), raw(nil, "evil")), "traversal"},
		"root as a file":         {ar(file("/", "x")), ""}, // a folder, because of its slash
		"root as a link":         {ar(sym(".", "/")), "name"},
		"root as a hard link":    {ar(file("a", ""), hard("./", "a")), "name"},
		"nameless":               {join(raw(func(b []byte) { b[0] = 0 }, "")), "name"},
		"long element":           {ar(file(strings.Repeat("n", 256), "")), "name"},
		"long element in a path": {ar(file(strings.Repeat("n", 256)+"/x", "")), "name"},
		"long path":              {ar(file(wide, "")), "name"},
		"device of a long name":  {ar(device(strings.Repeat("n", 253))), "name"},
		"pax path with a NUL":    {join(records("path", "a\x00b"), raw(nil, "evil")), "malformed"},
		"pax link with a NUL":    {join(records("linkpath", "a\x00b"), raw(func(b []byte) { b[156] = '2' }, "")), "malformed"},

		"whiteout of nothing":       {ar(file(".wh.", "")), "whiteout"},
		"whiteout of the folder":    {ar(file("a/.wh..", "")), "whiteout"},
		"whiteout of the one above": {ar(file("a/.wh...", "")), "whiteout"},
		"below a whiteout":          {ar(file(".wh.a/b", "")), "whiteout"},
		"below an opaque":           {ar(file(".wh..wh..opq/b", "")), "whiteout"},
		"below a whiteout by link":  {ar(sym("a", ".wh.b"), file("a/c", "")), "whiteout"},
		"link to a whiteout":        {ar(file(".wh.a", ""), hard("b", ".wh.a")), "whiteout"},

		"hard link outside":        {ar(hard("a", "../sentinel/x")), "traversal"},
		"hard link, absolute":      {ar(hard("a", "/etc/passwd")), "hard_link"},
		"hard link by a link":      {ar(sym("l", "/etc"), hard("a", "l/passwd")), "hard_link"},
		"hard link by a link up":   {ar(sym("l", "../sentinel"), hard("a", "l/x")), "hard_link"},
		"hard link to a later one": {ar(hard("a", "b"), file("b", "")), "hard_link"},
		"hard link to itself":      {ar(hard("a", "a")), "hard_link"},
		"hard links in a circle":   {ar(hard("a", "b"), hard("b", "a")), "hard_link"},
		"hard link to a folder":    {ar(dir("a"), hard("b", "a")), "hard_link"},
		"hard link to the root":    {ar(hard("b", "/")), "hard_link"},
		"hard link into itself":    {ar(file("a/b", "x"), hard("a", "a/b")), "hard_link"},
		"hard link deep in itself": {ar(file("a/b/c/d", "x"), hard("a/b", "a/b/c/d")), "hard_link"},
		"hard link to its parent":  {ar(file("a", "x"), hard("a/b", "a")), "hard_link"},
		"hard link to what went":   {ar(file("a/b", "x"), file("a", ""), hard("c", "a/b")), "hard_link"},
		"hard link to a whiteout":  {ar(overlayGone("a"), hard("b", "a")), "hard_link"},

		"links in a circle":  {ar(sym("a", "b"), sym("b", "a"), file("a/x", "")), "symlink"},
		"link to itself":     {ar(sym("a", "a"), file("a/x", "")), "symlink"},
		"link below itself":  {ar(sym("a", "a/b"), file("a/x", "")), "symlink"},
		"links that double":  {ar(doubling()...), "symlink"},
		"links that add up":  {ar(dotted()...), "symlink"},
		"link to nothing":    {join(raw(func(b []byte) { b[156] = '2' }, "")), "symlink"},
		"link to much":       {ar(sym("a", strings.Repeat("x", 4096))), "symlink"},
		"link to long names": {ar(sym("a", strings.Repeat("x", 300)), file("a/b", "")), "symlink"},

		"deep":             {ar(file(deep+"x", "")), "depth"},
		"deep folder":      {ar(dir(deep + "x")), "depth"},
		"deep by links":    {ar(append([]entry{file(strings.Repeat("d/", 100)+"x", ""), sym("l", strings.Repeat("d/", 100))}, file("l/"+strings.Repeat("e/", 50)+"x", ""))...), "depth"},
		"many":             {ar(many(1001)...), "files"},
		"many, implied":    {ar(spread(501)...), "files"},
		"many whiteouts":   {ar(whiteouts(1001)...), "files"},
		"many devices":     {ar(devices(1001)...), "files"},
		"large":            {ar(file("a", strings.Repeat("x", 1<<20)), file("b", "y")), "bytes"},
		"declared as huge": {join(raw(func(b []byte) { binary(b[124:136], math.MaxInt64) }, "")), "bytes"},
		"pax size":         {join(records("size", "9223372036854775807"), raw(nil, "")), "bytes"},
		"sparse":           {sparse("8000000000000000000"), "bytes"},
		"long headers":     {bytes.Repeat(records("comment", strings.Repeat("c", 900<<10)), 12), "stream"},
		"endless end":      {join(make([]byte, 11<<20)), "stream"},

		"negative size":        {join(raw(func(b []byte) { binary(b[124:136], -1); b[124] = 0xff }, "")), "malformed"},
		"pax negative size":    {join(records("size", "-5"), raw(nil, "")), "malformed"},
		"sum":                  {bytes.Replace(whole, []byte("ustar"), []byte("USTAR"), 1), "malformed"},
		"no tar":               {[]byte(strings.Repeat("hello ", 200)), "malformed"},
		"cut in a header":      {whole[:300], "cut_off"},
		"cut in a file":        {whole[:1000], "cut_off"},
		"size that is too big": {raw(func(b []byte) { copy(b[124:], "00000002000\x00") }, "short"), "cut_off"},
		"other tape":           {join(raw(func(b []byte) { b[156] = 'M' }, "")), "type"},
		"a letter":             {join(raw(func(b []byte) { b[156] = 'Z' }, "")), "type"},
	}
}

// doubling returns links each of which takes twice as many steps as the one before.
func doubling() (list []entry) {
	list = append(list, dir("l0"))
	for i := range 20 {
		list = append(list, sym(fmt.Sprintf("l%d", i+1), fmt.Sprintf("l%d/../l%d", i, i)))
	}
	return append(list, file("l20/x", ""))
}

// dotted returns links that each add thousands of steps, none of which leads anywhere.
func dotted() (list []entry) {
	list = append(list, dir("l0"))
	for i := range 39 {
		list = append(list, sym(fmt.Sprintf("l%d", i+1), fmt.Sprintf("l%d%s", i, strings.Repeat("/.", 2000))))
	}
	return append(list, file("l39/x", ""))
}

func many(n int) (list []entry) {
	for i := range n {
		list = append(list, file(fmt.Sprintf("f%d", i), ""))
	}
	return list
}

func spread(n int) (list []entry) {
	for i := range n {
		list = append(list, file(fmt.Sprintf("d%d/f", i), ""))
	}
	return list
}

func whiteouts(n int) (list []entry) {
	for i := range n {
		list = append(list, file(fmt.Sprintf(".wh.%d", i%3), ""))
	}
	return list
}

func devices(n int) (list []entry) {
	for i := range n {
		list = append(list, device(fmt.Sprintf("d%d", i%3)))
	}
	return list
}

// sparse returns a file of one block that claims to have many more.
func sparse(size string) []byte {
	return join(records("GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.name", "s", "GNU.sparse.realsize", size),
		raw(nil, "1\n0\n4\n"+strings.Repeat("\x00", 512-6)+"data"))
}

// strict returns limits that every attack by size exceeds.
func strict() layer.Options { return layer.Options{MaxBytes: 1 << 20, MaxFiles: 1000} }

func TestHostile(t *testing.T) {
	for name, attack := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, err := layer.Unpack(t.Context(), bytes.NewReader(attack.body), r.dir, strict())
			if attack.rule != "" {
				wantRule(t, err, attack.rule)
			} else if err != nil {
				t.Error(err)
			}
			r.untouched(t)
		})
	}
}

// TestLongWalks tests that the searches for the parents of all entries together are bounded: one entry may take a millisecond.
func TestLongWalks(t *testing.T) {
	a, b := strings.Repeat("a/", 27), strings.Repeat("b/", 27)
	linked := []entry{dir("z"), dir(a), dir(b)}
	last := "z"
	for i := range 18 {
		link := []string{a, b}[i%2] + fmt.Sprint("l", i)
		linked = append(linked, sym(link, "/"+last))
		last = link
	}
	var apart []entry
	for i := range 30_000 {
		linked = append(linked, file(last+"/x", ""))
		apart = append(apart, file(strings.Repeat("a/", 60)+"x", ""), file(strings.Repeat("b/", 60+i%2)+"x", ""))
	}
	for name, list := range map[string][]entry{"links": linked, "folders": apart} {
		r := newRig(t)
		stats, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), r.dir, layer.Options{})
		wantRule(t, err, "walks")
		if stats.Files > 10_000 {
			t.Errorf("%s: %d files were unpacked", name, stats.Files)
		}
		r.untouched(t)
	}
}

func TestOddButFine(t *testing.T) {
	trailing := append(tarOf(t, file("a", "1")), bytes.Repeat([]byte("garbage"), 1000)...)
	for name, test := range map[string]struct {
		body []byte
		want []string
	}{
		"nothing at all":    {nil, nil},
		"no end":            {raw(nil, "x"), []string{"a 644 x"}},
		"cut in a padding":  {raw(nil, "x")[:512+100], []string{"a 644 x"}},
		"half an end":       {append(raw(nil, "x"), make([]byte, 512)...), []string{"a 644 x"}},
		"trailing garbage":  {trailing, []string{"a 644 1"}},
		"two archives":      {append(tarOf(t, file("a", "1")), tarOf(t, file("b", "2"))...), []string{"a 644 1"}},
		"gnu names":         {join(gnu('L', "long/"+strings.Repeat("n", 200)), gnu('K', strings.Repeat("../", 60)), raw(func(b []byte) { b[156] = '2' }, "")), []string{"long/ 755", "long/" + strings.Repeat("n", 200) + " -> " + strings.Repeat("../", 60)}},
		"gnu name, NUL":     {join(gnu('L', "b\x00../../x"), raw(nil, "x")), []string{"b 644 x"}},
		"ustar name, NUL":   {join(raw(func(b []byte) { copy(b, "b\x00/../../x") }, "x")), []string{"b 644 x"}},
		"pax names":         {join(records("path", "pax", "mtime", "1.5"), raw(nil, "x")), []string{"pax 644 x"}},
		"pax size":          {join(records("size", "3"), raw(func(b []byte) { copy(b[124:], "00000000001\x00") }, "xyz")), []string{"a 644 xyz"}},
		"base 256":          {join(raw(func(b []byte) { binary(b[124:136], 3); binary(b[100:108], 0o644) }, "xyz")), []string{"a 644 xyz"}},
		"old folder":        {join(raw(func(b []byte) { copy(b, "d/"); b[156] = 0 }, "")), []string{"d/ 744"}},
		"contiguous":        {join(raw(func(b []byte) { b[156] = '7' }, "x")), []string{"a 644 x"}},
		"sparse":            {sparse("10"), []string{"s 644 data\x00\x00\x00\x00\x00\x00"}},
		"link with a size":  {join(raw(func(b []byte) { b[156] = '2'; copy(b[157:], "x"); copy(b[124:], "00000000777\x00") }, ""), raw(func(b []byte) { b[0] = 'b' }, "x")), []string{"a -> x", "b 644 x"}},
		"far future":        {join(raw(func(b []byte) { binary(b[136:148], math.MaxInt64) }, "x")), []string{"a 644 x"}},
		"far past":          {join(records("mtime", "-9223372036854775808"), raw(nil, "x")), []string{"a 644 x"}},
		"largest depth":     {tarOf(t, file(strings.Repeat("d/", 3)+"x", "")), []string{"d/ 755", "d/d/ 755", "d/d/d/ 755", "d/d/d/x 644 "}},
		"longest name":      {tarOf(t, overlayGone(strings.Repeat("n", 251)), device(strings.Repeat("m", 251))), nil},
		"mode of all kinds": {join(raw(func(b []byte) { binary(b[100:108], math.MaxInt32) }, "x")), []string{"a 755 x"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			o := strict()
			o.MaxDepth = 3
			source := bytes.NewReader(test.body)
			if _, err := layer.Unpack(t.Context(), iotest.OneByteReader(source), r.dir, o); err != nil {
				t.Fatal(err)
			}
			if source.Len() > 0 {
				t.Errorf("%d bytes were not read", source.Len())
			}
			root := folder(t)
			if _, err := layer.Merge(t.Context(), root, []string{r.dir}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, look(t, root)); diff != "" {
				t.Error(diff)
			}
			r.untouched(t)
		})
	}
}

// TestLimits tests that a layer of exactly the allowed size is accepted.
func TestLimits(t *testing.T) {
	o := layer.Options{MaxBytes: 10, MaxFiles: 4, MaxDepth: 1}
	list := []entry{dir("a"), file("a/b", "12345"), file("a/c", "12345"), dir("d")}
	if _, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), folder(t), o); err != nil {
		t.Error(err)
	}
	for rule, more := range map[string]entry{"files": file("e", ""), "bytes": file("a/b", "1"), "depth": file("a/b/c", "")} {
		limits := o
		if rule != "files" {
			limits.MaxFiles = 100
		}
		_, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, append(list, more)...)), folder(t), limits)
		wantRule(t, err, rule)
		var e *belljar.Error
		if errors.As(err, &e) && (e.Details["limit"] == nil || e.Details["entry"] != fmt.Sprintf("%q", more.name)) {
			t.Errorf("%v", e.Details)
		}
	}
}

// TestSourceFails tests that the error keeps the reason why the archive could not be read.
func TestSourceFails(t *testing.T) {
	broken := errors.New("the network is gone")
	whole := tarOf(t, file("a", strings.Repeat("x", 100_000)))
	for _, n := range []int{0, 100, 512, 70_000, len(whole)} {
		r := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		if _, err := layer.Unpack(t.Context(), r, folder(t), layer.Options{}); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	_, err := layer.Unpack(t.Context(), io.MultiReader(bytes.NewReader(whole[:100]), iotest.ErrReader(io.ErrUnexpectedEOF)), folder(t), layer.Options{})
	if belljar.CodeOf(err) == belljar.CodeImageInvalid || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want the source's own failure", err)
	}
}

// TestMessages tests that names in messages are printable and of limited length.
func TestMessages(t *testing.T) {
	for _, name := range []string{"\x1b[31m../red\n", strings.Repeat("\x01", 250) + "/../" + strings.Repeat("y", 3000)} {
		_, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, file(name+"/..", ""))), folder(t), layer.Options{})
		wantRule(t, err, "traversal")
		if strings.ContainsAny(err.Error(), "\x1b\x01") {
			t.Errorf("%q", err.Error())
		}
	}
}
