package mcp

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/char"
)

type (
	codeInput struct {
		inSandbox
		Code           string `json:"code" about:"The code; the value of its last expression is shown"`
		Language       string `json:"language,omitempty" about:"python, ipython, javascript or bash; python unless the operator set another one"`
		TimeoutSeconds int64  `json:"timeout_seconds,omitempty" minimum:"1" about:"Time limit in seconds"`
		Replay         bool   `json:"replay,omitempty" about:"If the variables are gone, execute the earlier code again first"`
	}
	codeOutput struct {
		execOutput
		shownOutput
	}
	shownOutput struct {
		Results       []codeResult `json:"results,omitempty" about:"What code has shown"`
		VariablesLost bool         `json:"variables_lost,omitempty" about:"Whether its interpreter was replaced, and the variables are gone"`
	}
	codeResult struct {
		Type  string   `json:"type" enum:"value,display,error,cut" about:"value is the last expression's"`
		Text  string   `json:"text,omitempty" about:"It as text, or an error's text"`
		Types []string `json:"types,omitempty" about:"The media types that it has; pictures are in the content"`
		Name  string   `json:"name,omitempty" about:"An error's name"`
	}
)

// maxPictureBytes limits the pictures of one answer together, in bytes.
const maxPictureBytes = 4 << 20

func codeTool() *tool {
	return newTool[codeInput, codeOutput]("sandbox_code", "Execute code in the sandbox", executes(true), code,
		"Executes code in an interpreter of the sandbox that remembers: variables, functions and imports stay from one call to the next, one interpreter for each language. "+
			"Answers with what was printed, with the value of the last expression, and with what was displayed: figures of matplotlib as pictures. In Python, await works at the top level, !cmd runs a command, "+
			"and display(x) shows a value. After a timeout the variables are still there.")
}

func code(c *call, in codeInput) (*reply, error) {
	timeout, err := c.session.terms.timeout("timeout_seconds", float64(in.TimeoutSeconds))
	if err != nil {
		return nil, err
	}
	usual := "python"
	if own, ok := belljar.ContextLanguage(c.session.terms.Language); ok {
		usual = own
	}
	language, ok := belljar.ContextLanguage(cmp.Or(in.Language, usual))
	if !ok {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("language %.40q has no interpreter that keeps its state", in.Language),
			Details: map[string]any{"field": "language"}, Hint: "python, ipython, javascript or bash; sandbox_exec runs any other program",
		}
	}
	run, out, err := c.finish(belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: in.SandboxID, Context: language, Language: language, Code: in.Code, Replay: in.Replay, TimeoutSec: timeout,
	}, c.session.terms.Wait)
	if err != nil {
		return nil, sandboxError(api.Renamed(err, map[string]string{"timeout_sec": "timeout_seconds"}))
	}
	var o codeOutput
	var text string
	if o.execOutput, text = c.executed(run, out, c.session.terms.Wait); o.output == nil {
		return &reply{text + " That has its value and its pictures, too.", nil, o}, nil
	}
	var shown string
	var more []sdk.Content
	o.shownOutput, shown, more = c.shown(run, out)
	return &reply{text + shown, more, o}, nil
}

// resultRoom is the overhead of each result in an answer, in bytes.
const resultRoom = 32

// pictureTypes are the types of pictures that models are shown.
var pictureTypes = []string{"png", "jpeg", "gif"}

// shown returns the results that the code of a run has shown: for programs, as text, and as
// pictures.
func (c *call) shown(run belljar.Run, out *belljar.Output) (shownOutput, string, []sdk.Content) {
	o := shownOutput{VariablesLost: run.Context.Lost()}
	var b strings.Builder
	var pictures []sdk.Content
	room := c.session.terms.MaxOutput
	bytes, looked, hidden, left := 0, 0, 0, 0
	cut := func(text string) string {
		text = char.Short(text, room)
		room -= len(text)
		return text
	}
	for _, r := range out.Results {
		if r.Type == belljar.ResultInput {
			continue // a model cannot answer it
		}
		pictured := slices.ContainsFunc(pictureTypes, func(ext string) bool { return r.Data["image/"+ext] != nil })
		if room > resultRoom {
			room -= resultRoom
			item := codeResult{Type: string(r.Type), Name: cut(r.Name)}
			switch r.Type {
			case belljar.ResultError:
				item.Text = cut(r.Value) // its traceback is on stderr
			case belljar.ResultCut:
				item.Text = cut(r.Text)
			default:
				item.Text = cut(textOf(r))
				for _, mime := range slices.Sorted(maps.Keys(r.Data)) {
					if room <= 0 {
						break
					}
					item.Types = append(item.Types, cut(mime))
				}
			}
			o.Results = append(o.Results, item)
			switch {
			case r.Type == belljar.ResultError:
			case item.Text != "":
				fmt.Fprintf(&b, "%s:\n%s\n", item.Type, item.Text)
			case !pictured:
				fmt.Fprintf(&b, "%s without text: %s\n", item.Type, strings.Join(item.Types, ", "))
			}
		} else if !pictured {
			left++
		}
		for _, ext := range pictureTypes {
			text, _ := r.Data["image/"+ext].(string)
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil || len(data) == 0 {
				continue
			}
			if looked == maxPictures || bytes+len(data) > maxPictureBytes {
				hidden++
				break
			}
			looked++
			content, about := c.picture(fmt.Sprintf("picture %d.%s", len(pictures)+1, ext), data)
			if content != nil {
				bytes += len(data)
				pictures = append(pictures, content)
			}
			fmt.Fprintln(&b, about)
			break
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\nnote: results that are not shown: %d. An answer has %d bytes of them\n", left, c.session.terms.MaxOutput)
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "\nnote: pictures that are not shown: %d. An answer has %d of %d bytes together at most; save them as files, and read each with sandbox_fs_read\n",
			hidden, maxPictures, maxPictureBytes)
	}
	if out.ResultsTruncated {
		b.WriteString("\nnote: results were left out, because there are too many\n")
	}
	if o.VariablesLost {
		b.WriteString("\nnote: the interpreter was replaced: its variables are gone\n")
	}
	return o, b.String(), pictures
}

// textOf returns a result as text, in the best form available.
func textOf(r belljar.Result) string {
	for _, mime := range []string{"text/markdown", "text/plain", "text/latex"} {
		if text, ok := r.Data[mime].(string); ok && text != "" {
			return text
		}
	}
	if value, ok := r.Data["application/json"]; ok {
		if raw, err := json.Marshal(value); err == nil {
			return string(raw)
		}
	}
	return ""
}
