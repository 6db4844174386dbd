package belljar

import (
	"errors"
	"fmt"
)

// Code classifies an error for programs. The list is closed. [Table] maps each code to its form in every API.
type Code string

// The error codes.
const (
	CodeInvalidRequest     Code = "invalid_request"
	CodeInvalidSpecVersion Code = "invalid_spec_version"
	CodeUnauthorized       Code = "unauthorized"
	CodeForbidden          Code = "forbidden"
	CodeNotFound           Code = "not_found"
	CodeIdempotency        Code = "idempotency_conflict"
	CodeConflict           Code = "conflict"
	CodePrecondition       Code = "precondition_failed"
	CodeRateLimited        Code = "rate_limited"
	CodeQuotaExceeded      Code = "quota_exceeded"
	CodePolicyDenied       Code = "policy_denied"
	CodeTimeout            Code = "timeout"
	CodeCanceled           Code = "canceled"
	CodeTooLarge           Code = "payload_too_large"
	CodePathEscapes        Code = "path_escapes"
	CodeRuntimeUnavailable Code = "runtime_unavailable"
	CodeImageUnavailable   Code = "image_unavailable"
	CodeImageInvalid       Code = "image_invalid"
	CodeDiskFull           Code = "disk_full"
	CodeInternal           Code = "internal"
)

// CodeInfo is one row of the error table.
type CodeInfo struct {
	Code    Code
	HTTP    int    // status of an HTTP response
	JSONRPC int    // error code of a JSON-RPC response (MCP, LSP)
	Exit    int    // exit status of the command line
	SDK     string // name of the exception in the SDKs
	Advice  string // what the user should do
}

// Table has one row for every code, in the order of the documentation.
func Table() []CodeInfo {
	return []CodeInfo{
		{CodeInvalidRequest, 400, -32602, 125, "InvalidRequestError", "Correct the field named in details.field and send the request again."},
		{CodeInvalidSpecVersion, 400, -32602, 125, "InvalidSpecVersionError", "Use one of the versions in details.supported."},
		{CodeUnauthorized, 401, -32001, 125, "UnauthorizedError", "Send a valid API key or token."},
		{CodeForbidden, 403, -32003, 125, "ForbiddenError", "Ask the operator for permission."},
		{CodeNotFound, 404, -32004, 125, "NotFoundError", "Check the id; it may have expired."},
		{CodeIdempotency, 409, -32009, 125, "IdempotencyConflictError", "Use a new Idempotency-Key for a different request."},
		{CodeConflict, 409, -32009, 125, "ConflictError", "Read the current state and decide again."},
		{CodePrecondition, 412, -32012, 125, "PreconditionFailedError", "Read the file again and decide again: it is not the one in If-Match."},
		{CodeRateLimited, 429, -32029, 125, "RateLimitedError", "Wait for Retry-After and send the same request again."},
		{CodeQuotaExceeded, 429, -32029, 125, "QuotaExceededError", "Wait until your usage falls, or ask the operator for a higher quota."},
		{CodePolicyDenied, 403, -32003, 125, "PolicyDeniedError", "Ask for less, or ask the operator to change the policy; details name the rule."},
		{CodeTimeout, 504, -32008, 125, "TimeoutError", "Set a longer time limit, or do less."},
		{CodeCanceled, 499, -32800, 125, "CanceledError", "Nothing; the request was canceled."},
		{CodeTooLarge, 413, -32013, 125, "PayloadTooLargeError", "Send less; details give the limit."},
		{CodePathEscapes, 400, -32602, 125, "PathEscapesError", "Name a path inside the workspace, without links that leave it."},
		{CodeRuntimeUnavailable, 503, -32053, 125, "RuntimeUnavailableError", "Run belljar doctor on the host; details name the failing step."},
		{CodeImageUnavailable, 503, -32054, 125, "ImageUnavailableError", "Check the image name, or pull it first."},
		{CodeImageInvalid, 422, -32055, 125, "ImageInvalidError", "Use another image; details name the fault of this one."},
		{CodeDiskFull, 507, -32057, 125, "DiskFullError", "Free space on the host."},
		{CodeInternal, 500, -32603, 125, "InternalError", "This is a fault of Belljar; report it with the request id."},
	}
}

// Info returns the row of a code, or the row of [CodeInternal] for an unknown code.
func (c Code) Info() CodeInfo {
	rows := Table()
	for _, row := range rows {
		if row.Code == c {
			return row
		}
	}
	return rows[len(rows)-1]
}

// Error is every failure of a request or of Belljar itself. A program that fails inside a sandbox is not an Error: it is the outcome of its run.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"` // the next step for the user, lower case, no full stop
	Err     error          `json:"-"`              // the cause, for the log
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err: "" for nil, [CodeInternal] for any error that is not an [Error].
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// HintOf returns the first hint in err's chain, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
