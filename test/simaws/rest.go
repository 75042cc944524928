package simaws

import (
	"net/http"
	"strconv"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

func restRefusal(err *cloud.Error) reply {
	status := jsonStatus(err.Code)
	switch err.Code {
	case "ResourceNotFoundException":
		status = http.StatusNotFound
	case "ResourceInUseException", "ConflictException":
		status = http.StatusConflict
	case "ServiceQuotaExceededException":
		status = http.StatusPaymentRequired
	}
	return jsonRefusal("", err, status)
}

// metadataService is the instance metadata service, version 2 only.
type metadataService struct{ cloud *cloud.Cloud }

var _ service = (*metadataService)(nil)

const (
	metadataToken     = "simaws-metadata-token" // not a secret: the simulator's only token
	metadataTokenPath = "/latest/api/token"
)

func (s *metadataService) action(c *call) string { return c.method + " " + c.path }

func (s *metadataService) serve(_ string, c *call) (reply, *cloud.Error) {
	if c.path == metadataTokenPath {
		ttl := c.header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds")
		if n, err := strconv.Atoi(ttl); c.method != http.MethodPut || err != nil || n < 1 || n > 21600 {
			return reply{}, apiError("400", "PUT with a TTL between 1 and 21600 seconds")
		}
		return reply{kind: "text/plain", body: []byte(metadataToken), headers: map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": ttl}}, nil
	}
	if c.header.Get("X-Aws-Ec2-Metadata-Token") != metadataToken {
		return reply{}, apiError("401", "Unauthorized")
	}
	o := s.cloud.Options()
	switch c.path {
	case "/latest/meta-data/placement/region":
		return reply{kind: "text/plain", body: []byte(o.Region)}, nil
	case "/latest/dynamic/instance-identity/document":
		return jsonReply("", map[string]string{"region": o.Region, "accountId": o.AccountID, "availabilityZone": o.Region + "a"})
	}
	return reply{}, apiError("404", "Not Found")
}

func (s *metadataService) refuse(_ *call, err *cloud.Error) reply {
	status, convErr := strconv.Atoi(err.Code)
	if convErr != nil {
		status = http.StatusInternalServerError
	}
	return reply{status: status, kind: "text/plain", body: []byte(err.Message)}
}
