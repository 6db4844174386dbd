package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// host provides the sandboxes: a server, or a private one.
type host struct {
	program string // belljar
	service belljar.Service
	env     []string // with which belljar mcp finds the same host
	close   func()
}

// connect uses the server from the environment, or starts a private one.
func connect(ctx context.Context) (*host, error) {
	h := &host{program: cmp.Or(os.Getenv("BELLJAR_BIN"), "belljar")}
	url, key, end := os.Getenv("BELLJAR_SERVER"), os.Getenv("BELLJAR_API_KEY"), func() {}
	if url == "" {
		var err error
		if url, key, end, err = h.private(ctx); err != nil {
			return nil, err
		}
	}
	c, err := client.New(client.Options{URL: url, APIKey: key})
	if err != nil {
		end()
		return nil, err
	}
	h.service, h.env = c, append(os.Environ(), "BELLJAR_SERVER="+url, "BELLJAR_API_KEY="+key)
	h.close = func() {
		c.Close()
		end()
	}
	return h, nil
}

// private starts belljar serve --private, which lives until its standard input ends: on end, or when this program exits. The
// agents' belljar mcp processes share it. A program that does not share its server uses client.Local.
func (h *host) private(ctx context.Context) (url, key string, end func(), err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), h.program, "serve", "--private")
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe()
	if err != nil {
		return "", "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", "", nil, fmt.Errorf("start %s: %w", h.program, err)
	}
	end = func() {
		_ = life.Close()
		_ = cmd.Wait() // ignore the exit status
	}
	var ready struct {
		Socket string `json:"socket"`
		Key    string `json:"api_key"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		end()
		return "", "", nil, fmt.Errorf("%s serve is not ready: %w", h.program, err)
	}
	return "unix:" + ready.Socket, ready.Key, end, nil
}

// toolkit holds the tools of one agent.
type toolkit struct {
	session *mcp.ClientSession
	list    []*mcp.Tool
}

// tools starts belljar mcp for an agent's file, in a run of a workflow, and selects the tools with those names.
func (h *host) tools(ctx context.Context, agentFile, workflow string, names []string) (*toolkit, error) {
	cmd := exec.Command(h.program, "mcp", "--agent-file", agentFile, "--workflow", workflow)
	cmd.Env, cmd.Stderr = h.env, os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "workflow", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, fmt.Errorf("belljar mcp: %w", err)
	}
	kit := &toolkit{session: session}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, errors.Join(err, session.Close())
		}
		if slices.Contains(names, tool.Name) {
			kit.list = append(kit.list, tool)
		}
	}
	return kit, nil
}

func (k *toolkit) close() { _ = k.session.Close() } // the sandbox stays, because it belongs to the workflow

// call performs a model's tool call and returns the text of the result.
func (k *toolkit) call(ctx context.Context, name string, input json.RawMessage) (text string, failed bool, err error) {
	result, err := k.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: input})
	if err != nil {
		if ctx.Err() != nil {
			return "", false, ctx.Err()
		}
		return err.Error(), true, nil
	}
	var parts []string
	for _, content := range result.Content {
		if part, ok := content.(*mcp.TextContent); ok {
			parts = append(parts, part.Text)
		}
	}
	return strings.Join(parts, "\n"), result.IsError, nil
}
