package layer

import "strings"

// Prefixes of the names of marks. An entry .wh.NAME hides NAME in the layers below; [opaque] hides everything of lower
// layers in its folder. Names that begin with metaPrefix belong to the storage driver that introduced whiteouts: a layer
// may have them, even as targets of hard links, but an image has none.
const (
	markPrefix = ".wh."
	metaPrefix = ".wh..wh."
	opaque     = ".wh..wh..opq"
)

// The longest names that Linux allows, in bytes.
const (
	maxElement = 255
	maxPath    = 4095
)

// isMark reports whether a name is a whiteout, opaque ones included, or belongs to the storage driver.
func isMark(element string) bool { return strings.HasPrefix(element, markPrefix) }

// isMeta reports whether a name belongs to the storage driver. The opaque whiteout does not.
func isMeta(element string) bool { return strings.HasPrefix(element, metaPrefix) && element != opaque }

// whiteoutOf returns the name that a whiteout hides, and false if it hides no valid name. Do not call it with [opaque]
// or a storage driver's name.
func whiteoutOf(element string) (string, bool) {
	name := strings.TrimPrefix(element, markPrefix)
	return name, name != "" && name != "." && name != ".."
}

// split returns the elements of a name, none for the root, after all checks that need no disk.
func split(entry, name string) ([]string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, refuse("name", entry, "there is a NUL in the name")
	}
	if len(name) > maxPath {
		return nil, refuse("name", entry, "the name is longer than %d bytes", maxPath)
	}
	if name == "" {
		return nil, refuse("name", entry, "the name is empty")
	}
	elements := make([]string, 0, 16)
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "" || element == ".":
			continue
		case element == "..":
			return nil, refuse("traversal", entry, ".. in a name")
		case len(element) > maxElement:
			return nil, refuse("name", entry, "a part of the name is longer than %d bytes", maxElement)
		}
		elements = append(elements, element)
	}
	if n := len(elements); n > 0 && isMark(elements[n-1]) && !isMeta(elements[n-1]) && elements[n-1] != opaque {
		if _, ok := whiteoutOf(elements[n-1]); !ok {
			return nil, refuse("whiteout", entry, "a whiteout of nothing that can be")
		}
	}
	return elements, nil
}
