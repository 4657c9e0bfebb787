package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func app() *AppDeploy {
	return &AppDeploy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "a", UID: "u1"},
		Spec:       AppDeploySpec{Image: "shop:1", Port: 8080},
	}
}

// stored returns a Deployment as the API server returns it, with defaults and with fields of other managers.
func stored(t *testing.T, app *AppDeploy) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Labels = desiredLabels(app)
	desireDeployment(app, d)
	d.UID = "u2"
	d.Labels["team"] = "a"
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	d.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy"})
	if _, err := stripped(d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStoredChildEqualsTheDesiredChild(t *testing.T) {
	cached := stored(t, app())
	desired := *cached
	desired.Labels = desiredLabels(app())
	desireDeployment(app(), &desired)
	if !equality.Semantic.DeepEqual(cached, &desired) {
		t.Errorf("cached %v, desired %v", cached, &desired)
	}
}

func TestNewImageDiffersAndDoesNotChangeTheCache(t *testing.T) {
	cached := stored(t, app())
	changed := app()
	changed.Spec.Image = "shop:2"
	desired := *cached
	desireDeployment(changed, &desired)
	if equality.Semantic.DeepEqual(cached, &desired) {
		t.Error("a new image equals the old one")
	}
	if image := cached.Spec.Template.Spec.Containers[0].Image; image != "shop:1" {
		t.Errorf("the cache has the image %s", image)
	}
}

func TestWrittenObjectIsUsedUntilTheCacheHasIt(t *testing.T) {
	version := func(version string) *AppDeploy {
		app := app()
		app.ResourceVersion = version
		return app
	}
	var written written
	written.add(version("10"))
	for _, older := range []string{"", "9"} {
		if !written.get(version(older)).isNewer(version(older)) {
			t.Errorf("version 10 is not newer than version %q", older)
		}
	}
	if written.isOwn(version("9")) || !written.isOwn(version("10")) {
		t.Error("only the event of version 10 is the operator's own")
	}
	if written.get(version("9")).isNewer(version("9")) {
		t.Error("version 10 is still stored after its event")
	}
	written.add(version("11"))
	written.remove(version("11"))
	if written.get(version("")).isNewer(version("")) {
		t.Error("version 11 is still stored after its deletion")
	}
}
