"""What the files under deploy/ may say: the part of the Compose specification and of Kubernetes' API that they use, as models
that refuse an unknown key and a wrong kind. A key that is new in a file is looked up in the specification and added here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _tagged(image: str) -> str:
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag or tag == "latest" or not name:
        raise ValueError(f"{image} has no tag, or one that moves")
    return image


Image = Annotated[str, AfterValidator(_tagged)]
Duration = Annotated[str, Field(pattern=r"^\d+(ms|s|m|h)$")]
Bytes = Annotated[str, Field(pattern=r"^\d+[bkmg]$")]
Restart = Literal["no", "always", "on-failure", "unless-stopped"]

# --- Compose --------------------------------------------------------------------------------------------------------------


class Build(Strict):
    context: str
    dockerfile: str


class Healthcheck(Strict):
    test: list[str]
    interval: Duration
    timeout: Duration
    retries: int


class DependsOn(Strict):
    condition: Literal["service_started", "service_healthy", "service_completed_successfully"]


class Limits(Strict):
    memory: Bytes


class Resources(Strict):
    limits: Limits


class Deploy(Strict):
    resources: Resources


class Service(Strict):
    image: Image
    build: Build | None = None
    restart: Restart
    command: list[str] | None = None
    environment: dict[str, str] = {}
    volumes: list[Annotated[str, Field(pattern=r"^[\w./-]+:/[\w./-]+(:ro)?$")]] = []
    ports: list[Annotated[str, Field(pattern=r"^[\d.]+:\$?[\w{}:-]+:\d+$")]] = []
    healthcheck: Healthcheck | None = None
    depends_on: dict[str, DependsOn] = {}
    deploy: Deploy | None = None


class Compose(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    ours: dict[str, Any] = Field(alias="x-ours")
    services: dict[str, Service]
    volumes: dict[str, dict[str, Any]]


# --- Kubernetes -----------------------------------------------------------------------------------------------------------

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
Quantity = Annotated[str, Field(pattern=r"^\d+(m|Ki|Mi|Gi)?$")]
Port = Annotated[int, Field(ge=1, le=65_535)]


class Metadata(Strict):
    name: Label
    namespace: Label | None = None
    labels: dict[str, Label] = {}


class Namespace(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["Namespace"]
    metadata: Metadata


class Secret(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["Secret"]
    metadata: Metadata
    type: Literal["Opaque"]
    stringData: dict[str, str]


class ConfigMap(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[str, str]


class Reference(Strict):
    name: Label


class EnvFrom(Strict):
    secretRef: Reference | None = None
    configMapRef: Reference | None = None


class Mount(Strict):
    name: Label
    mountPath: Annotated[str, Field(pattern="^/")]
    readOnly: bool = False


class Amounts(Strict):
    cpu: Quantity | None = None
    memory: Quantity


class ContainerResources(Strict):
    requests: Amounts
    limits: Amounts


class Capabilities(Strict):
    drop: list[str]


class ContainerSecurity(Strict):
    allowPrivilegeEscalation: Literal[False]
    capabilities: Capabilities


class ContainerPort(Strict):
    name: Label
    containerPort: Port


class Exec(Strict):
    command: list[str]


class TcpSocket(Strict):
    port: Port | Label


class Probe(Strict):
    exec: Exec | None = None
    tcpSocket: TcpSocket | None = None
    initialDelaySeconds: int = 0
    periodSeconds: int = 10
    timeoutSeconds: int = 1
    failureThreshold: int = 3


class Container(Strict):
    name: Label
    image: Image
    args: list[str]
    envFrom: list[EnvFrom]
    volumeMounts: list[Mount]
    resources: ContainerResources
    securityContext: ContainerSecurity
    ports: list[ContainerPort] = []
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None


class PodSecurity(Strict):
    runAsNonRoot: Literal[True]
    runAsUser: int


class ConfigMapVolume(Strict):
    name: Label
    configMap: Reference


class PodSpec(Strict):
    terminationGracePeriodSeconds: int
    securityContext: PodSecurity
    containers: list[Container]
    volumes: list[ConfigMapVolume]


class Template(Strict):
    metadata: Labelled
    spec: PodSpec


class Labelled(Strict):
    labels: dict[str, Label]


class Selector(Strict):
    matchLabels: dict[str, Label]


class Strategy(Strict):
    type: Literal["Recreate", "RollingUpdate"]


class DeploymentSpec(Strict):
    replicas: int
    strategy: Strategy | None = None
    selector: Selector
    template: Template


class Deployment(Strict):
    apiVersion: Literal["apps/v1"]
    kind: Literal["Deployment"]
    metadata: Metadata
    spec: DeploymentSpec


class ServicePort(Strict):
    name: Label
    port: Port
    targetPort: Port | Label


class ServiceSpec(Strict):
    selector: dict[str, Label]
    ports: list[ServicePort]


class NetworkService(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["Service"]
    metadata: Metadata
    spec: ServiceSpec


Template.model_rebuild()
Manifest: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Namespace | Secret | ConfigMap | Deployment | NetworkService,
        Field(discriminator="kind"),
    ]
)
