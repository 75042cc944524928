package simaws

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// target is the operation of a JSON-protocol call: X-Amz-Target is
// "<prefix>.<operation>".
func target(c *call, prefix string) string {
	name, _ := strings.CutPrefix(c.header.Get("X-Amz-Target"), prefix+".")
	return name
}

// readJSON decodes a JSON request; members it does not know are refused.
func readJSON(c *call, into any) *cloud.Error {
	dec := json.NewDecoder(bytes.NewReader(c.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return apiError("SerializationException", err.Error())
	}
	return nil
}

// jsonReply encodes an answer; version is 1.0 or 1.1, or empty for REST.
func jsonReply(version string, out any) (reply, *cloud.Error) {
	body, err := json.Marshal(out)
	if err != nil {
		return reply{}, apiError("InternalFailure", "simaws cannot encode the answer: "+err.Error())
	}
	return reply{kind: jsonKind(version), body: body}, nil
}

func jsonKind(version string) string {
	if version == "" {
		return "application/json"
	}
	return "application/x-amz-json-" + version
}

// jsonRefusal words an error in JSON.
func jsonRefusal(version string, err *cloud.Error, status int) reply {
	body, encodeErr := json.Marshal(map[string]string{"__type": err.Code, "message": err.Message})
	if encodeErr != nil {
		body = []byte("{}") // two strings always encode
	}
	return reply{status: status, kind: jsonKind(version), body: body, headers: map[string]string{"X-Amzn-ErrorType": err.Code}}
}

func jsonStatus(code string) int {
	switch code {
	case "InternalFailure", "InternalServerError", "InternalErrorException":
		return http.StatusInternalServerError
	case "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "AccessDeniedException", "AccessDenied", "ExpiredTokenException":
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

func unknownOperation(name string) *cloud.Error {
	return apiError("UnknownOperationException", "The operation "+name+" is not known")
}
