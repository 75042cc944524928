package simaws

import (
	"net/http"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// zonalShiftService answers for shifts of the cluster away from a zone.
type zonalShiftService struct{ cloud *cloud.Cloud }

var (
	_ service = (*zonalShiftService)(nil)
	_ guarded = (*zonalShiftService)(nil)
)

func (s *zonalShiftService) action(c *call) string {
	kind, id, _ := strings.Cut(strings.Trim(c.path, "/"), "/")
	named := ""
	if id != "" {
		named = "/*"
	}
	return map[string]string{
		"GET managedresources/*": "GetManagedResource", "POST zonalshifts": "StartZonalShift", "GET zonalshifts": "ListZonalShifts",
		"DELETE zonalshifts/*": "CancelZonalShift",
	}[c.method+" "+kind+named]
}

func (s *zonalShiftService) needs(action string, _ *call) []cloud.Demand {
	resource := s.cloud.ClusterARN()
	if action == "ListZonalShifts" {
		resource = "*"
	}
	return []cloud.Demand{{Action: "arc-zonal-shift:" + action, Resource: resource}}
}

func (s *zonalShiftService) serve(action string, c *call) (reply, *cloud.Error) {
	_, id, _ := strings.Cut(strings.Trim(c.path, "/"), "/")
	switch action {
	case "GetManagedResource":
		return s.managed(id)
	case "StartZonalShift":
		return s.start(c)
	case "ListZonalShifts":
		items := []map[string]any{}
		for _, z := range s.cloud.ZonalShifts() {
			items = append(items, s.describe(z))
		}
		return jsonReply("", map[string]any{"items": items})
	case "CancelZonalShift":
		z, err := s.cloud.CancelZonalShift(id)
		if err != nil {
			return reply{}, err
		}
		return jsonReply("", s.describe(z))
	}
	return reply{}, unknownOperation(c.method + " " + c.path)
}

func (s *zonalShiftService) managed(id string) (reply, *cloud.Error) {
	arn := s.cloud.ClusterARN()
	if id != arn {
		return reply{}, apiError("ResourceNotFoundException", "The resource "+id+" is not managed.")
	}
	shifts, weights := []map[string]any{}, map[string]float64{}
	for _, z := range s.cloud.Zones() {
		weights[z.ID] = 1
	}
	for _, z := range s.cloud.ZonalShifts() {
		shifts = append(shifts, s.describe(z))
		if z.Status == cloud.ShiftApplied {
			weights[z.AwayFrom] = 0
		}
	}
	return jsonReply("", map[string]any{
		"arn": arn, "name": s.cloud.Options().ClusterName, "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": []any{}})
}

func (s *zonalShiftService) describe(z cloud.ZonalShift) map[string]any {
	return map[string]any{
		"zonalShiftId": z.ID, "awayFrom": z.AwayFrom, "appliedStatus": z.Status, "status": "ACTIVE", "resourceIdentifier": s.cloud.ClusterARN(),
		"expiryTime": epoch(z.ExpiresAt), "startTime": epoch(z.StartAt), "comment": z.Comment,
	}
}

func (s *zonalShiftService) start(c *call) (reply, *cloud.Error) {
	var in struct {
		AwayFrom           string `json:"awayFrom"`
		Comment            string `json:"comment"`
		ExpiresIn          string `json:"expiresIn"`
		ResourceIdentifier string `json:"resourceIdentifier"`
	}
	if err := readJSON(c, &in); err != nil {
		return reply{}, err
	}
	if in.ResourceIdentifier != s.cloud.ClusterARN() {
		return reply{}, apiError("ResourceNotFoundException", "The resource "+in.ResourceIdentifier+" is not managed.")
	}
	life, err := time.ParseDuration(in.ExpiresIn)
	if err != nil || life < time.Minute || life > 72*time.Hour {
		return reply{}, apiError("ValidationException", "expiresIn must be between 1m and 72h")
	}
	z, refusal := s.cloud.StartZonalShift(in.AwayFrom, in.Comment, life)
	if refusal != nil {
		return reply{}, refusal
	}
	out, refusal := jsonReply("", s.describe(z))
	out.status = http.StatusCreated
	return out, refusal
}

func (s *zonalShiftService) refuse(_ *call, err *cloud.Error) reply { return restRefusal(err) }
