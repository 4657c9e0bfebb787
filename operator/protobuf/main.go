// Writes the fields of Kubernetes' messages in protobuf, as they are tagged in k8s.io/api, as Rust to the standard output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What the operator reads: objects, the Status of an error, and the metadata of any object.
var roots = []any{
	&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &networkingv1.Ingress{}, &metav1.Status{},
	&metav1.PartialObjectMetadata{},
}

// Types with a form of their own in JSON.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():        "Time",
	reflect.TypeFor[metav1.FieldsV1]():    "Skipped",
	reflect.TypeFor[intstr.IntOrString](): "IntOrString",
	reflect.TypeFor[resource.Quantity]():  "Quantity",
}

type generator struct {
	messages map[string]string
	types    map[string]reflect.Type
}

func main() {
	write := fields
	if len(os.Args) > 1 && os.Args[1] == "examples" {
		write = examples
	}
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// fields writes the table of all messages.
func fields(out io.Writer) error {
	g := generator{messages: map[string]string{}, types: map[string]reflect.Type{}}
	for _, root := range roots {
		g.message(reflect.TypeOf(root).Elem())
	}
	text := "//! The fields of Kubernetes' messages in protobuf. Written by `make protobuf`; do not edit.\n\n" +
		"use super::message::{Descriptor, Type, field, list, message, omitted};\n"
	for _, name := range slices.Sorted(maps.Keys(g.messages)) {
		text += "\n" + g.messages[name]
	}
	_, err := io.WriteString(out, text)
	return err
}

// examples writes each message as JSON and as protobuf: with all of its fields, and with none.
func examples(out io.Writer) error {
	type example struct {
		Kind     string `json:"kind"`
		Protobuf []byte `json:"protobuf"`
		JSON     any    `json:"json"`
	}
	var all []example
	for _, root := range roots {
		for _, filled := range []bool{false, true} {
			object := reflect.New(reflect.TypeOf(root).Elem())
			if filled {
				fill(object.Elem(), 1)
			}
			message := object.Interface().(interface{ Marshal() ([]byte, error) })
			bytes, err := message.Marshal()
			if err != nil {
				return err
			}
			all = append(all, example{object.Elem().Type().Name(), bytes, message})
		}
	}
	for i, one := range all {
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		open, end := " ", ",\n"
		if i == 0 {
			open = "["
		}
		if i == len(all)-1 {
			end = "]\n"
		}
		if _, err := io.WriteString(out, open+string(line)+end); err != nil {
			return err
		}
	}
	return nil
}

// fill sets all fields, and their fields.
func fill(value reflect.Value, number int) {
	switch known := value.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		*known = metav1.Unix(1_800_000_000, 0)
		return
	case *metav1.FieldsV1:
		known.Raw = []byte("{}")
		return
	case *intstr.IntOrString:
		*known = intstr.FromString("25%")
		return
	case *resource.Quantity:
		*known = resource.MustParse("1500m")
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("text " + strconv.Itoa(number))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		// A negative number has ten bytes.
		value.SetInt(int64(number) * -1000)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), number)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		fill(value.Index(0), number)
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for _, key := range []string{"a", "b"} {
			entry := reflect.New(value.Type().Elem()).Elem()
			if key == "b" {
				fill(entry, number)
			}
			value.SetMapIndex(reflect.ValueOf(key).Convert(value.Type().Key()), entry)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			fill(value.Field(i), i+1)
		}
	default:
		panic(fmt.Sprintf("%s: unexpected kind %s", value.Type(), value.Kind()))
	}
}

// message describes a type, and those of its fields, and returns its name in Rust.
func (g generator) message(t reflect.Type) string {
	name := constant(t.Name())
	if known, ok := g.types[name]; ok {
		if known != t {
			panic(fmt.Sprintf("%s and %s have the same name", known, t))
		}
		return name
	}
	g.types[name] = t
	fields := map[int]string{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", t, f.Name, err))
		}
		json := strings.Split(f.Tag.Get("json"), ",")
		var entry string
		if json[0] == "" {
			entry = fmt.Sprintf("field(%d, \"\", Type::Inline(&%s))", number, g.message(f.Type))
		} else {
			// A field that is not a pointer is sent even if it is empty. In JSON, an empty one is left out if the tag says so.
			with := "field"
			if f.Type.Kind() != reflect.Pointer && slices.Contains(json, "omitempty") {
				with = "omitted"
			}
			ft := f.Type
			if ft.Kind() == reflect.Slice && ft.Elem().Kind() != reflect.Uint8 {
				with, ft = "list", ft.Elem()
			}
			value := g.value(ft)
			if with == "omitted" && !slices.Contains([]string{"Type::Text", "Type::Bool", "Type::Int"}, value) {
				with = "field"
			}
			entry = fmt.Sprintf("%s(%d, %q, %s)", with, number, json[0], value)
		}
		fields[number] = "    " + entry + ",\n"
	}
	text := ""
	for _, number := range slices.Sorted(maps.Keys(fields)) {
		text += fields[number]
	}
	g.messages[name] = fmt.Sprintf("pub(super) static %s: Descriptor = message(%q, &[\n%s]);\n", name, t.Name(), text)
	return name
}

// value returns the type of a value in Rust.
func (g generator) value(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := special[t]; ok {
		return "Type::" + name
	}
	switch t.Kind() {
	case reflect.String:
		return "Type::Text"
	case reflect.Bool:
		return "Type::Bool"
	case reflect.Int32, reflect.Int64:
		return "Type::Int"
	case reflect.Map:
		return fmt.Sprintf("Type::Map(&%s)", g.value(t.Elem()))
	case reflect.Struct:
		return fmt.Sprintf("Type::Message(&%s)", g.message(t))
	default:
		panic(fmt.Sprintf("%s: unexpected kind %s", t, t.Kind()))
	}
}

// constant returns a name in the case of constants: PodIP becomes POD_IP.
func constant(name string) string {
	var out strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		ends := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if ends {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToUpper(r))
	}
	return out.String()
}
