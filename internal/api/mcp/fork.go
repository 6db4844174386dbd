package mcp

import (
	"strings"

	"github.com/belljar/belljar"
)

type (
	forkInput struct {
		inSandbox
		Count int  `json:"count,omitempty" minimum:"1" about:"How many copies; default 1, at most 32"`
		Live  bool `json:"live,omitempty" about:"Copy memory and processes, too, where the runtime can: variables of sandbox_code stay"`
	}
	forkOutput struct {
		SandboxIDs []string `json:"sandbox_ids" about:"The copies"`
		Consistent bool     `json:"consistent" about:"Whether no command could change a file while the files were copied"`
	}
)

func forkTool() *tool {
	return newTool[forkInput, forkOutput]("sandbox_fork", "Copy the sandbox", adds(false), fork,
		"Makes copies of the sandbox with its files, to try several ways at once. Answers with their sandbox_ids; each is used like the first. Without live, "+
			"interpreters and commands are not copied. The copies end with this conversation, or by sandbox_close.")
}

func fork(c *call, in forkInput) (*reply, error) {
	made, err := c.service.Snapshots().Fork(c, in.SandboxID, belljar.ForkSpec{Count: in.Count, Live: in.Live})
	if err != nil {
		return nil, sandboxError(err)
	}
	o := forkOutput{Consistent: made.Consistent}
	c.remember(made.Sessions...)
	for _, s := range made.Sessions {
		o.SandboxIDs = append(o.SandboxIDs, s.ID)
	}
	text := "The copies have the sandbox_ids " + strings.Join(o.SandboxIDs, ", ")
	if !made.Consistent {
		text += "\nnote: commands ran while the files were copied: some files may be half written"
	}
	return &reply{text, nil, o}, nil
}
