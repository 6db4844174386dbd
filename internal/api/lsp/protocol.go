package lsp

import "encoding/json"

// The error codes that the protocol adds to JSON-RPC.
const (
	codeNotInitialized = -32002
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeRequestFailed  = -32803
	codeCancelled      = -32800
)

type initializeParams struct {
	ProcessID        *int               `json:"processId"`
	RootURI          *string            `json:"rootUri"`
	RootPath         *string            `json:"rootPath"`
	Options          json.RawMessage    `json:"initializationOptions"`
	Capabilities     clientCapabilities `json:"capabilities"`
	WorkspaceFolders []workspaceFolder  `json:"workspaceFolders"`
}

// initializationOptions are Belljar's own.
type initializationOptions struct {
	ClientCommands bool  `json:"clientCommands"` // the client registers the commands itself
	Notifications  bool  `json:"notifications"`  // it understands belljar/run, belljar/log and belljar/logTruncated
	CodeLens       *bool `json:"codeLens"`       // false: the server shows no lenses
}

type clientCapabilities struct {
	General struct {
		PositionEncodings []string `json:"positionEncodings"`
	} `json:"general"`
	Window struct {
		WorkDoneProgress bool `json:"workDoneProgress"`
		ShowDocument     struct {
			Support bool `json:"support"`
		} `json:"showDocument"`
	} `json:"window"`
	Workspace struct {
		CodeLens struct {
			RefreshSupport bool `json:"refreshSupport"`
		} `json:"codeLens"`
		DidChangeConfiguration dynamic `json:"didChangeConfiguration"`
		DidChangeWatchedFiles  dynamic `json:"didChangeWatchedFiles"`
	} `json:"workspace"`
	TextDocument struct {
		PublishDiagnostics struct {
			RelatedInformation     bool `json:"relatedInformation"`
			VersionSupport         bool `json:"versionSupport"`
			CodeDescriptionSupport bool `json:"codeDescriptionSupport"`
			DataSupport            bool `json:"dataSupport"`
		} `json:"publishDiagnostics"`
	} `json:"textDocument"`
}

type dynamic struct {
	DynamicRegistration bool `json:"dynamicRegistration"`
}

type registration struct {
	ID      string         `json:"id"`
	Method  string         `json:"method"`
	Options map[string]any `json:"registerOptions"`
}

type configurationChanged struct {
	Settings struct {
		TLDW struct {
			Sandbox struct {
				CodeLens *bool `json:"codeLens"`
			} `json:"sandbox"`
		} `json:"tldw"`
	} `json:"settings"`
}

type filesChanged struct {
	Changes []struct {
		URI string `json:"uri"`
	} `json:"changes"`
}

type workspaceFolder struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

type foldersChanged struct {
	Event struct {
		Added   []workspaceFolder `json:"added"`
		Removed []workspaceFolder `json:"removed"`
	} `json:"event"`
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type textDocument struct {
	URI        string `json:"uri"`
	LanguageID string `json:"languageId"`
	Version    int    `json:"version"`
	Text       string `json:"text"`
}

type openParams struct {
	TextDocument textDocument `json:"textDocument"`
}

type documentParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version *int   `json:"version"`
	} `json:"textDocument"`
	ContentChanges []contentChange `json:"contentChanges"` // of textDocument/didChange
}

type contentChange struct {
	Range *span  `json:"range"`
	Text  string `json:"text"`
}

type command struct {
	Title     string `json:"title"`
	Tooltip   string `json:"tooltip,omitempty"`
	Command   string `json:"command"`
	Arguments []any  `json:"arguments,omitempty"`
}

type codeLens struct {
	Range   span    `json:"range"`
	Command command `json:"command"`
}

type executeParams struct {
	Command   string            `json:"command"`
	Arguments []json.RawMessage `json:"arguments"`
}

type progressCancelled struct {
	Token any `json:"token"`
}

type actionParams struct {
	TextDocument textDocument `json:"textDocument"`
	Context      struct {
		Diagnostics []json.RawMessage `json:"diagnostics"` // diagnostics of other servers may have any form
		Only        []string          `json:"only"`
	} `json:"context"`
}

type codeAction struct {
	Title       string       `json:"title"`
	Kind        string       `json:"kind"`
	Diagnostics []diagnostic `json:"diagnostics"`
	Command     command      `json:"command"`
}

// The severities of a diagnostic, and of a message to the user.
const (
	severityError   = 1
	severityWarning = 2

	messageError   = 1
	messageWarning = 2
	messageInfo    = 3
	messageLog     = 4
)

type diagnostic struct {
	Range           span             `json:"range"`
	Severity        int              `json:"severity,omitempty"`
	Code            string           `json:"code,omitempty"`
	CodeDescription *codeDescription `json:"codeDescription,omitempty"`
	Source          string           `json:"source,omitempty"`
	Message         string           `json:"message"`
	Related         []related        `json:"relatedInformation,omitempty"`
	Data            *diagnosticData  `json:"data,omitempty"`
}

type codeDescription struct {
	Href string `json:"href"`
}

type related struct {
	Location location `json:"location"`
	Message  string   `json:"message"`
}

type diagnosticData struct {
	RunID string          `json:"run_id"`
	Frame string          `json:"frame,omitempty"` // the place in the program's own form
	Rerun json.RawMessage `json:"rerun,omitempty"` // the arguments of the run
}

type publishParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type messageParams struct {
	Type    int             `json:"type"`
	Message string          `json:"message"`
	Actions []messageAction `json:"actions,omitempty"` // of a request
}

type messageAction struct {
	Title string `json:"title"`
}

type showDocument struct {
	URI      string `json:"uri"`
	External bool   `json:"external"`
}

type progressParams struct {
	Token any           `json:"token"`
	Value progressValue `json:"value"`
}

type progressValue struct {
	Kind        string `json:"kind"`
	Title       string `json:"title,omitempty"`
	Message     string `json:"message,omitempty"`
	Cancellable bool   `json:"cancellable,omitempty"`
}
