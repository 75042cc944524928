package status

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// How long an answer of the API server about a token and a path is believed, and how many are kept.
const (
	allowFor   = 5 * time.Minute
	denyFor    = 30 * time.Second
	accessKept = 1000
)

// Access decides who may read the endpoint: it has the API server review the token, for our audience, and then the right of its owner to read
// the path. The ready-made filter of controller-runtime is for tokens of the API server's own audience and in the usual header, which
// is exactly what must not come here. It is safe for concurrent use.
type Access struct {
	client kubernetes.Interface
	now    func() time.Time

	mu   sync.Mutex
	kept map[accessKey]access
}

type accessKey struct {
	token [sha256.Size]byte
	path  string
}

type access struct {
	status int
	until  time.Time
}

// NewAccess returns an Access that asks the API server with the client.
func NewAccess(client kubernetes.Interface, now func() time.Time) *Access {
	return &Access{client: client, now: now, kept: map[accessKey]access{}}
}

// Check returns 200, 401 or 403 for a request; an error means that the API server could not be asked.
func (a *Access) Check(ctx context.Context, r *http.Request) (int, error) {
	token, ok := strings.CutPrefix(r.Header.Get(Header), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := accessKey{sha256.Sum256([]byte(token)), r.URL.Path}
	if status, ok := a.recall(key); ok {
		return status, nil
	}
	status, err := a.ask(ctx, token, r.URL.Path)
	if err != nil {
		return 0, err
	}
	a.keep(key, status)
	return status, nil
}

func (a *Access) recall(key accessKey) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, ok := a.kept[key]
	if !ok || !a.now().Before(have.until) {
		return 0, false
	}
	return have.status, true
}

func (a *Access) keep(key accessKey, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= accessKept {
		// Somebody tries many tokens; the honest few are asked for again.
		clear(a.kept)
	}
	lifetime := denyFor
	if status == http.StatusOK {
		lifetime = allowFor
	}
	a.kept[key] = access{status, a.now().Add(lifetime)}
}

func (a *Access) ask(ctx context.Context, token, path string) (int, error) {
	review, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	verdict, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	}
	if !verdict.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
