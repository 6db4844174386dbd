package trace

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/url"
	"path"
	"strings"
)

// sourceMap is a source map of version 3. Its mappings stay encoded: a trace needs few positions, and a map may have millions.
type sourceMap struct {
	Version    int       `json:"version"`
	SourceRoot string    `json:"sourceRoot"`
	Sources    []string  `json:"sources"`
	Mappings   string    `json:"mappings"`
	Sections   []section `json:"sections"` // instead of the three fields above

	from string // the base folder of sources
}

// section is the map of a part of a file: bundlers concatenate maps.
type section struct {
	Offset struct {
		Line   int `json:"line"`
		Column int `json:"column"`
	} `json:"offset"` // start of the part, from 0
	Map *sourceMap `json:"map"`
}

// part returns the map of a place, and the place relative to that map: the last section that begins at or before it.
func (m *sourceMap) part(line, column int) (*sourceMap, int, int) {
	for i := len(m.Sections) - 1; i >= 0; i-- {
		switch s := m.Sections[i]; {
		case s.Map == nil || line < s.Offset.Line || line == s.Offset.Line && column < s.Offset.Column:
		case line == s.Offset.Line:
			return s.Map, 0, column - s.Offset.Column
		default:
			return s.Map, line - s.Offset.Line, column
		}
	}
	return m, line, column
}

// mapped returns the source place of a frame in compiled JavaScript; false if there is no mapping or the source is not below the
// root.
func (r *Resolver) mapped(file string, f Frame) (Location, bool) {
	switch path.Ext(file) {
	case ".js", ".mjs", ".cjs", ".jsx":
	default:
		return Location{}, false
	}
	m, known := r.maps[file]
	if !known {
		m = r.sourceMap(file)
		r.maps[file] = m
	}
	if m == nil || f.Line < 1 {
		return Location{}, false
	}
	m, line, column := m.part(f.Line-1, max(f.Column-1, 0))
	source, line, column, ok := m.find(line, column)
	if !ok || source < 0 || source >= len(m.Sources) {
		return Location{}, false
	}
	name, ok := m.source(source)
	if !ok {
		return Location{}, false
	}
	text, ok := r.text(name)
	if !ok {
		return Location{}, false
	}
	from := f
	from.Line, from.Column, from.EndColumn, from.units = line+1, 0, 0, utf16Units
	if f.Column > 0 {
		from.Column = column + 1
	}
	l := at(Location{Frame: from}, name, text)
	l.Frame = f
	return l, true
}

// sourceMap reads the map of a compiled file: an inline map, the file in its last comment, or the file with its name and ".map".
func (r *Resolver) sourceMap(file string) *sourceMap {
	for _, fsys := range []fs.FS{r.root, r.options.Artifacts} {
		link := ""
		if text, err := load(fsys, file, mostSource); err == nil {
			link = mapLink(text)
		}
		if data, ok := strings.CutPrefix(link, "data:"); ok {
			return newSourceMap(inline(data), path.Dir(file))
		}
		for _, name := range []string{link, path.Base(file) + ".map"} {
			name, err := url.PathUnescape(name)
			if err != nil || name == "" || strings.Contains(name, ":") || path.IsAbs(name) {
				continue
			}
			if name = path.Join(path.Dir(file), name); !fs.ValidPath(name) {
				continue
			}
			for _, in := range []fs.FS{fsys, r.root, r.options.Artifacts} {
				if text, err := load(in, name, mostSource); err == nil {
					return newSourceMap(text, path.Dir(name))
				}
			}
		}
	}
	return nil
}

// mapLink returns the URL of the last sourceMappingURL comment in a program.
func mapLink(text string) string {
	const mark = "# sourceMappingURL="
	i := strings.LastIndex(text, mark)
	if i < 2 || text[i-2:i] != "//" && text[i-2:i] != "/*" {
		return ""
	}
	link, _, _ := strings.Cut(text[i+len(mark):], "\n")
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(link), "*/"))
}

// inline returns the content of a data URL without its scheme.
func inline(data string) string {
	kind, body, ok := strings.Cut(data, ",")
	if !ok {
		return ""
	}
	if strings.HasSuffix(kind, ";base64") {
		text, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return ""
		}
		return string(text)
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return ""
	}
	return text
}

func newSourceMap(text, from string) *sourceMap {
	text = strings.TrimPrefix(text, ")]}'")
	var m sourceMap
	if json.Unmarshal([]byte(text), &m) != nil || m.Version != 3 {
		return nil
	}
	m.from = from
	for _, s := range m.Sections {
		if s.Map != nil {
			s.Map.from = from
		}
	}
	return &m
}

// source returns the path of a source below the root.
func (m *sourceMap) source(i int) (string, bool) {
	name := m.Sources[i]
	if m.SourceRoot != "" {
		name = strings.TrimSuffix(m.SourceRoot, "/") + "/" + name
	}
	switch {
	case strings.HasPrefix(name, "webpack://"): // webpack://name/./src/x.ts
		_, name, _ = strings.Cut(strings.TrimPrefix(name, "webpack://"), "/")
		name, _, _ = strings.Cut(name, "?")
		name = path.Clean(strings.TrimPrefix(name, "/"))
		return name, fs.ValidPath(name)
	case strings.HasPrefix(name, "file://"):
		name = strings.TrimPrefix(name, "file://")
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
	}
	name = strings.ReplaceAll(name, `\`, "/")
	if path.IsAbs(name) {
		name, ok := inWorkspace(name)
		return name, ok && fs.ValidPath(name)
	}
	name = path.Join(m.from, name)
	return name, fs.ValidPath(name)
}

// find returns the source position of a compiled one, all from 0: that of the last segment at or before the column.
func (m *sourceMap) find(line, column int) (source, sourceLine, sourceColumn int, ok bool) {
	d := decoder{s: m.Mappings}
	var src, sl, sc int
	for at := 0; at <= line; at++ {
		col := 0
		for !d.end() && !d.take(';') {
			if d.take(',') {
				continue
			}
			var fields [5]int
			n := d.segment(&fields)
			if n == 0 {
				return 0, 0, 0, false // not base 64: the map is invalid
			}
			col += fields[0]
			if n >= 4 {
				src, sl, sc = src+fields[1], sl+fields[2], sc+fields[3]
			}
			if at == line && (col <= column || !ok) {
				if col > column {
					continue
				}
				source, sourceLine, sourceColumn, ok = src, sl, sc, n >= 4
			}
		}
		if d.end() && at < line {
			return 0, 0, 0, false
		}
	}
	return source, sourceLine, sourceColumn, ok && sourceLine >= 0 && sourceColumn >= 0
}

// decoder reads base 64 VLQ numbers.
type decoder struct {
	s string
	i int
}

func (d *decoder) end() bool { return d.i >= len(d.s) }

func (d *decoder) take(c byte) bool {
	if d.end() || d.s[d.i] != c {
		return false
	}
	d.i++
	return true
}

// segment reads the numbers of a segment, at most five, and returns how many it has; 0 if it is invalid.
func (d *decoder) segment(fields *[5]int) (n int) {
	for !d.end() && d.s[d.i] != ',' && d.s[d.i] != ';' {
		value, shift := 0, 0
		for {
			if d.end() {
				return 0
			}
			digit := strings.IndexByte(base64Digits, d.s[d.i])
			if digit < 0 || shift > 30 {
				return 0
			}
			d.i++
			value |= digit & 31 << shift
			if shift += 5; digit&32 == 0 {
				break
			}
		}
		if value&1 != 0 {
			value = -(value >> 1)
		} else {
			value >>= 1
		}
		if n == len(fields) {
			return 0
		}
		fields[n] = value
		n++
	}
	return n
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
