package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "appdeploy.dev", Version: "v1alpha1"}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &AppDeploy{}, &AppDeployList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

// AppDeploy has the fields of config/crd/appdeploys.yaml that this operator uses.
type AppDeploy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AppDeploySpec   `json:"spec"`
	Status AppDeployStatus `json:"status,omitempty"`
}

// AppDeploySpec is the desired state.
type AppDeploySpec struct {
	Image    string `json:"image"`
	Replicas *int32 `json:"replicas,omitempty"`
	Port     int32  `json:"port,omitempty"`
	Host     string `json:"host,omitempty"`
}

// AppDeployStatus is the observed state.
type AppDeployStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	URL                string             `json:"url,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// AppDeployList is a list of AppDeploys.
type AppDeployList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppDeploy `json:"items"`
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *AppDeploy) DeepCopy() *AppDeploy {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		out.Spec.Replicas = new(*in.Spec.Replicas)
	}
	// A condition has no pointers to values that change.
	out.Status.Conditions = slices.Clone(in.Status.Conditions)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *AppDeploy) DeepCopyObject() runtime.Object {
	return in.DeepCopy()
}

// DeepCopyObject implements runtime.Object.
func (in *AppDeployList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]AppDeploy, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return &out
}
