package file

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// filePath returns a request's path relative to the workspace.
func filePath(field, given string) (string, error) {
	switch {
	case given == "":
		return "", badPath(field, given, "is required")
	case strings.ContainsRune(given, 0):
		return "", badPath(field, given, "contains a NUL byte")
	case !utf8.ValidString(given):
		return "", badPath(field, given, "is not valid UTF-8")
	}
	clean, err := belljar.CleanPath(given)
	if err != nil {
		e := badPath(field, given, "leads out of the workspace")
		e.Code, e.Hint = belljar.CodePathEscapes, "name a path relative to "+belljar.WorkspaceDir+", without .."
		return "", e
	}
	if err := belljar.CheckPlace(clean); err != nil {
		e := badPath(field, given, "")
		e.Message = field + ": " + err.Error()
		var long *belljar.Error
		if errors.As(err, &long) {
			e.Details["maximum"], e.Details["maximum_name"] = long.Details["maximum"], long.Details["maximum_name"]
		}
		return "", e
	}
	return clean, nil
}

// folderPath is filePath for an operation that may also name the workspace itself, with an empty path.
func folderPath(field, given string) (string, error) {
	if given == "" {
		return ".", nil
	}
	return filePath(field, given)
}

// namedPath is filePath for an operation that must not name the workspace itself.
func namedPath(field, given string) (string, error) {
	clean, err := filePath(field, given)
	if err == nil && clean == "." {
		e := badPath(field, given, "is the workspace itself")
		e.Hint = "name something in it"
		return "", e
	}
	return clean, err
}

func badPath(field, given, why string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s %.100q %s", field, given, why),
		Details: map[string]any{"field": field, "provided": cutText(given, 200)},
	}
}

// cutText returns at most n bytes of text, in whole characters.
func cutText(text string, n int) string {
	if len(text) > n {
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}
