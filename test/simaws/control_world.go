package simaws

import (
	"net/http"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// controlWorld adds what changes the account beside its instances.
func (s *Server) controlWorld(mux *http.ServeMux) {
	controlPost(mux, "subnets", func(_ *http.Request, in SubnetInfo) (any, error) {
		return s.cloud.AddSubnet(in.Zone, in.CIDR, in.Tags)
	})
	controlPost(mux, "subnets/{id}/free", func(r *http.Request, in struct {
		Free int `json:"free"`
	}) (any, error) {
		return nil, s.cloud.SetFreeAddresses(r.PathValue("id"), in.Free)
	})
	controlPost(mux, "queue/{name}", func(r *http.Request, in struct {
		Body string `json:"body"`
	}) (any, error) {
		id, refusal := s.cloud.Send(r.PathValue("name"), in.Body)
		if refusal != nil {
			return nil, refusal
		}
		return id, nil
	})
	controlPost(mux, "images", func(_ *http.Request, in cloud.Image) (any, error) { return s.cloud.AddImage(in), nil })
	controlPost(mux, "images/{id}/deprecate", func(r *http.Request, in struct {
		At time.Time `json:"at"`
	}) (any, error) {
		return nil, s.cloud.DeprecateImage(r.PathValue("id"), in.At)
	})
	controlPost(mux, "images/release", func(_ *http.Request, in struct {
		At     time.Time `json:"at"`
		Family string    `json:"family"` // empty: all
	}) (any, error) {
		s.cloud.Release(in.Family, in.At)
		return nil, nil
	})
	controlPost(mux, "reservations", func(_ *http.Request, in cloud.CapacityReservation) (any, error) {
		return s.cloud.AddReservation(in), nil
	})
	controlPost(mux, "placementgroups", func(_ *http.Request, in cloud.PlacementGroup) (any, error) {
		return s.cloud.AddPlacementGroup(in), nil
	})
	controlPost(mux, "zonalshifts", func(_ *http.Request, in []cloud.ZonalShift) (any, error) {
		s.cloud.SetZonalShifts(in)
		return nil, nil
	})
	controlPost(mux, "health", func(_ *http.Request, in struct {
		Service   string   `json:"service"`
		Category  string   `json:"category"`
		Instances []string `json:"instances"`
	}) (any, error) {
		s.cloud.HealthEvent(in.Service, in.Category, in.Instances)
		return nil, nil
	})
	controlPost(mux, "reservations/{id}/reclaim", func(r *http.Request, in struct {
		Count int `json:"count"`
	}) (any, error) {
		return nil, s.cloud.ReclaimReservation(r.PathValue("id"), in.Count)
	})
	controlPost(mux, "parameters", func(_ *http.Request, in struct {
		Name  string `json:"name"`
		Value string `json:"value"` // empty: removed
	}) (any, error) {
		s.cloud.SetParameter(in.Name, in.Value)
		return nil, nil
	})
}
