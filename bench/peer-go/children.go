package main

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "appdeploy"
	containerName  = "app"
	portName       = "http"
)

// stripped removes the fields of an object that this operator neither writes nor reads. The caches hold only the rest: it
// takes less memory, and a child equals the desired child unless a field of this operator has changed. The values that
// the API server defaults are part of the desired child.
func stripped(in any) (any, error) {
	object, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	object.SetManagedFields(nil)
	object.SetAnnotations(nil)
	object.SetLabels(ownLabels(object.GetLabels()))
	switch o := in.(type) {
	case *AppDeploy:
		o.Labels = nil
	case *appsv1.Deployment:
		stripDeployment(o)
	case *corev1.Service:
		ports := make([]corev1.ServicePort, len(o.Spec.Ports))
		for i, port := range o.Spec.Ports {
			ports[i] = corev1.ServicePort{
				Name: port.Name, Protocol: port.Protocol, Port: port.Port, TargetPort: port.TargetPort,
			}
		}
		o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, Selector: o.Spec.Selector, Ports: ports}
		o.Status = corev1.ServiceStatus{}
	case *networkingv1.Ingress:
		o.Spec = networkingv1.IngressSpec{Rules: o.Spec.Rules}
		o.Status = networkingv1.IngressStatus{}
	}
	return in, nil
}

func stripDeployment(d *appsv1.Deployment) {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(d.Spec.Template.Labels)}}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != containerName {
			continue
		}
		ports := make([]corev1.ContainerPort, len(c.Ports))
		for i, port := range c.Ports {
			ports[i] = corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol}
		}
		template.Spec.Containers = []corev1.Container{{Name: containerName, Image: c.Image, Ports: ports}}
	}
	d.Spec = appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Template: template}
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Status.ObservedGeneration,
		ReadyReplicas:      d.Status.ReadyReplicas,
	}
	if isAvailable(d) {
		status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
	}
	d.Status = status
}

func isAvailable(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	})
}

// ownLabels returns the labels that this operator sets, with the values that they have.
func ownLabels(labels map[string]string) map[string]string {
	own := make(map[string]string, 2)
	for _, key := range []string{labelName, labelManagedBy} {
		if value, ok := labels[key]; ok {
			own[key] = value
		}
	}
	return own
}

func desiredLabels(app *AppDeploy) map[string]string {
	return map[string]string{labelName: app.Name, labelManagedBy: managedBy}
}

// The functions below change a stripped child to its desired state. They replace maps, slices and pointers instead of
// writing to what these refer to, because that is part of the cache.

func desireDeployment(app *AppDeploy, d *appsv1.Deployment) {
	if d.UID == "" { // The selector is immutable.
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelName: app.Name}}
	}
	d.Spec.Replicas = new(desiredReplicas(app))
	d.Spec.Template.Labels = desiredLabels(app)
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name:  containerName,
		Image: app.Spec.Image,
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: app.Spec.Port, Protocol: corev1.ProtocolTCP}},
	}}
}

func desireService(app *AppDeploy, s *corev1.Service) {
	s.Spec.Type = corev1.ServiceTypeClusterIP
	s.Spec.Selector = map[string]string{labelName: app.Name}
	s.Spec.Ports = []corev1.ServicePort{{
		Name: portName, Protocol: corev1.ProtocolTCP, Port: app.Spec.Port, TargetPort: intstr.FromString(portName),
	}}
}

func desireIngress(app *AppDeploy, i *networkingv1.Ingress) {
	i.Spec.Rules = []networkingv1.IngressRule{{
		Host: host(app),
		IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{
				Path:     "/",
				PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: app.Name,
					Port: networkingv1.ServiceBackendPort{Name: portName},
				}},
			}},
		}},
	}}
}

func desiredReplicas(app *AppDeploy) int32 {
	if app.Spec.Replicas == nil {
		return 1
	}
	return *app.Spec.Replicas
}

func host(app *AppDeploy) string {
	if app.Spec.Host != "" {
		return app.Spec.Host
	}
	return app.Name + "." + app.Namespace
}
