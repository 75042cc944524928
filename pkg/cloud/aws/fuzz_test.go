package aws_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
)

// bodies reads a MIME document as cloud-init does and returns content types and bodies.
func bodies(t *testing.T, text string) (types, out []string) {
	t.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return types, out
		}
		if err != nil {
			t.Fatalf("reading the parts of %q: %v", text, err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		types, out = append(types, part.Header.Get("Content-Type")), append(out, string(body))
	}
}

// FuzzUserDataMIME: whatever the user writes, the document can be read again, and its last part is the one that joins the cluster.
func FuzzUserDataMIME(f *testing.F) {
	for _, seed := range []string{
		"", "#!/bin/bash\necho hi", "kind: NodeConfig\n", "--//\n", "a: [", "Content-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/plain\n\nhi\n--X--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=Y\n\npreamble\n--Y\n\nno header\n--Y\nContent-Type: a/b; c=\"d\"\nX: y\n\n\n--Y--\nepilogue",
		"Content-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: a/b\n\nx\n--//--\n", "Content-Type: text/plain\n\nx", "MIME-Version:", "\x00", "\r\n--//\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		for _, family := range []ec2types.Family{ec2types.AL2, ec2types.AL2023} {
			b := boot()
			b.Family, b.User = family, user
			text, err := aws.RenderUserData(b)
			if err != nil {
				continue
			}
			if strings.Contains(text, "\r") {
				t.Errorf("%s: %q gave a carriage return", family, user)
			}
			types, parts := bodies(t, text)
			if len(parts) == 0 {
				t.Fatalf("%s: %q gave no part", family, user)
			}
			last, lastType := parts[len(parts)-1], types[len(types)-1]
			if family == ec2types.AL2 && !strings.Contains(last, "/etc/eks/bootstrap.sh 'demo'") ||
				family == ec2types.AL2023 && (lastType != "application/node.eks.aws" || !strings.Contains(last, "name: demo")) {
				t.Errorf("%s: %q gave the last part %s\n%s", family, user, lastType, last)
			}
		}
	})
}

// FuzzUserDataTOML: whatever the user writes, the result is TOML that names our cluster, and every setting of the user's outside of
// settings.kubernetes is in it.
func FuzzUserDataTOML(f *testing.F) {
	for _, seed := range []string{
		"", "[settings.kubernetes]\nmax-pods = 99\n", "a = 1", "settings = 1", "[settings]\nkubernetes = {a = {b = 1}}", "[[settings.x]]\ny = 1979-05-27\n",
		"[settings.ntp]\ntime-servers = [\"a\", \"b\"]\n", "\"quoted key\" = '''multi\nline'''", "x = inf", "x = 1e400", "x = 0x_1", "[a.b]\n[a]\n", "a.b.c = 07:32:00",
		"[settings.kubernetes.node-labels]\n\"a/b\" = \"c\"\n", "\x00", "k = \"\\u00e9\\t\"", "[settings.bootstrap-commands.x]\ncommands = [[]]\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		b := boot()
		b.Family, b.User = ec2types.Bottlerocket, user
		text, err := aws.RenderUserData(b)
		if err != nil {
			return
		}
		var out, in map[string]any
		if err := toml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%q gave %q: %v", user, text, err)
		}
		settings := out["settings"].(map[string]any)
		if name := settings["kubernetes"].(map[string]any)["cluster-name"]; name != "demo" {
			t.Errorf("%q gave cluster %v", user, name)
		}
		if err := toml.Unmarshal([]byte(strings.ReplaceAll(user, "\r", "")), &in); err != nil {
			t.Fatalf("%q was read although it is no TOML: %v", user, err)
		}
		for key := range in {
			if _, ok := out[key]; !ok {
				t.Errorf("%q lost %s", user, key)
			}
		}
	})
}

// FuzzUserDataPowerShell: the user's commands cannot end the element that starts the node.
func FuzzUserDataPowerShell(f *testing.F) {
	for _, seed := range []string{"", "Write-Host hi", "</powershell>", "<PowerShell>", "'@\n", "a\r\nb", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		b := boot()
		b.Family, b.User = ec2types.Windows2022, user
		text, err := aws.RenderUserData(b)
		if err != nil {
			return
		}
		if strings.Count(strings.ToLower(text), "<powershell>") != 1 || strings.Count(strings.ToLower(text), "</powershell>") != 1 {
			t.Errorf("%q gave %q", user, text)
		}
		if !strings.Contains(text, "\n& $EKSBootstrapScriptFile -EKSClusterName 'demo'") {
			t.Errorf("%q has no bootstrap call: %q", user, text)
		}
	})
}

// FuzzQuote: a quoted text is one word of a shell, whatever is in it.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a b", "'", "''", `'\''`, "\n", `"$x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := unquoteShell(aws.ShellQuote(text)); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	})
}

// unquoteShell reads a word made of single-quoted pieces and escaped quotes, as a shell does.
func unquoteShell(word string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '\'':
			quoted = !quoted
		case !quoted && word[i] == '\\':
			i++
			b.WriteByte(word[i])
		default:
			b.WriteByte(word[i])
		}
	}
	return b.String()
}

// FuzzProduct: an entry of the price list is read or refused, and a price is above zero.
func FuzzProduct(f *testing.F) {
	for _, seed := range []string{
		`{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"0.096"}}}}}}}`,
		`{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"1e300"}}}}}}}`,
		`{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"NaN"}}}}}}}`, `{}`, `[]`, ``, `null`,
	} {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, china bool) {
		if name, price, ok := aws.Product(text, china); ok && (name == "" || price <= 0) {
			t.Errorf("%q: name %q, price %d", text, name, price)
		}
	})
}

// FuzzAlias: an alias gives parameters or is refused, never a parameter with an empty segment.
func FuzzAlias(f *testing.F) {
	for _, seed := range [][2]string{{"al2023@latest", "1.32"}, {"al2@v20240703", "1.30"}, {"bottlerocket@v1.30.0", "1.32"}, {"windows2025@latest", "1.34"}, {"a@b@c", ""}, {"al2023@", "1.40+"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, alias, kube string) {
		names, err := aws.AliasParameters(alias, kube)
		if err == nil && len(names) == 0 {
			t.Errorf("%q, %q: neither parameters nor an error", alias, kube)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "/aws/service/") || !strings.HasSuffix(name, "/image_id") {
				t.Errorf("%q, %q: parameter %q", alias, kube, name)
			}
		}
	})
}

func recorded(payload []byte) *cloud.Request {
	return &cloud.Request{Token: "T", LaunchID: "claim/1", CapacityType: "spot", Payload: payload}
}

// FuzzThaw: a recorded launch is read or refused.
func FuzzThaw(f *testing.F) {
	f.Add([]byte(`{"v":1,"tenancy":"default","class":"nc","tags":{},"subnets":[{"id":"s","z":"a"}],"templates":[{"name":"n","image":"i","types":[{"n":"m5.large","s":[0],"p":[1]}]}],"images":"","shape":{"family":"AL2023","zones":[]}}`))
	f.Add([]byte(`{"v":1,"templates":[{"types":[{"n":"m5.large","s":[7],"p":[]}]}]}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if in, err := aws.FleetOf(recorded(text)); err == nil && in.ClientToken == nil {
			t.Errorf("%q: a fleet without token", text)
		}
	})
}
