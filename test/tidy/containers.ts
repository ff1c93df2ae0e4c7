/** Rules for deploy/docker and the Dockerfile: names, ports and paths in them agree, and settings exist. */
import { parseYaml } from '@redocly/openapi-core';
import { readDockerfile } from '../../scripts/image/dockerfile.ts';
import type { Rule, SourceFile } from './source.ts';

type Service = {
  image?: string;
  build?: string;
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  stop_grace_period?: string;
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  depends_on?: Record<string, unknown>;
  healthcheck?: { test?: string[] };
};
type Compose = { services: Record<string, Service>; volumes?: Record<string, unknown> };

/** Seconds that the service may take to stop, with a margin (docs/cli.md, start). */
const STOP_SECONDS = 60;

const isCompose = ({ path }: SourceFile) => /compose[\w.]*\.yml$/.test(path);
const composeIn = ({ text }: SourceFile) => parseYaml(text) as Compose;

/** @param documented text of docs/configuration.md */
export const composeSettingsExist =
  (documented: string): Rule =>
  (files) =>
    files.filter(isCompose).flatMap((file) => {
      const { environment = {} } = composeIn(file).services['letterhaus'] ?? {};
      return Object.keys(environment)
        .filter((name) => !documented.includes(`- \`${name}\` (`))
        .map((name) => `${file.path} sets ${name}, which is no variable.`);
    });

/** A volume that is not declared, or a service that is waited for and has no health check, ends `up` with an error. */
export const composeIsConsistent: Rule = (files) => {
  const all = files.filter(isCompose).map((file) => ({ file, compose: composeIn(file) }));
  return all.flatMap(({ file, compose: { services, volumes = {} } }) =>
    Object.entries(services).flatMap(([name, service]) => {
      const undeclared = (service.volumes ?? [])
        .map((volume) => volume.split(':')[0]!)
        .filter((volume) => !/^[./]/.test(volume) && !(volume in volumes))
        .map((volume) => `${file.path} does not declare the volume ${volume} of ${name}.`);
      const unhealthy = Object.keys(service.depends_on ?? {})
        .filter((other) => services[other]?.healthcheck === undefined)
        .map((other) => `${file.path} waits for ${other}, which has no health check.`);
      return [...undeclared, ...unhealthy];
    }),
  );
};

/** The image gives up what it does not need, and its ports and volume are those of the Dockerfile. */
export const composeFitsTheImage: Rule = (files) => {
  const dockerfile = files.find(({ path }) => path === 'Dockerfile')?.text ?? '';
  const image = readDockerfile(dockerfile).at(-1);
  const exposed = /^EXPOSE (.*)$/m.exec(dockerfile)?.[1]?.split(' ') ?? [];
  const volumes = image?.steps.flatMap((step) => (step.kind === 'volume' ? [step.path] : [])) ?? [];
  return files.filter(isCompose).flatMap((file) => {
    const service = composeIn(file).services['letterhaus'];
    if (service?.build === undefined) return [];
    const ports = (service.ports ?? []).map((port) => port.split(':').at(-1)!);
    const places = (service.volumes ?? []).map((volume) => volume.split(':')[1]!);
    const offences: [boolean, string][] = [
      [service.read_only !== true, 'permits writes into the image'],
      [!service.cap_drop?.includes('ALL'), 'keeps capabilities'],
      [!service.security_opt?.includes('no-new-privileges:true'), 'permits new privileges'],
      [parseInt(service.stop_grace_period ?? '0') < STOP_SECONDS, 'stops the service too soon'],
      [ports.some((port) => !exposed.includes(port)), 'maps a port that the image does not have'],
      [volumes.some((path) => !places.includes(path)), 'has no volume for the data'],
    ];
    return offences.filter(([is]) => is).map(([, what]) => `${file.path} ${what}.`);
  });
};

/** The image is that of this version, and each health check is a program that its image has. */
export const composeRunsThisVersion: Rule = (files) => {
  const find = (name: string) => files.find(({ path }) => path.endsWith(name))?.text ?? '{}';
  const { version = '' } = JSON.parse(find('package.json')) as { version?: string };
  const [major, minor] = version.split('.');
  return files.filter(isCompose).flatMap((file) =>
    Object.entries(composeIn(file).services).flatMap(([name, { image, build, healthcheck }]) => {
      const [, program = ''] = healthcheck?.test ?? [];
      const offences: [boolean, string][] = [
        [image === undefined && name !== 'letterhaus', `has no image for ${name}`],
        [
          build !== undefined && image !== `letterhaus:${major}.${minor}`,
          `builds ${image}, and this version is ${version}`,
        ],
        [
          healthcheck !== undefined && !HEALTH_CHECKS.includes(program),
          `checks the health of ${name} by "${program}", which its image does not have`,
        ],
      ];
      return offences.filter(([is]) => is).map(([, what]) => `${file.path} ${what}.`);
    }),
  );
};

/** Programs of the image of PostgreSQL. The health check of Letterhaus is in its Dockerfile. */
const HEALTH_CHECKS = ['pg_isready'];

/** The image has the file that its health check runs. */
export const healthCheckIsThere: Rule = (files) => {
  const dockerfile = files.find(({ path }) => path === 'Dockerfile')?.text ?? '';
  const [, script] = readDockerfile(dockerfile).at(-1)?.commands.healthcheck ?? [];
  const path = script?.replace('/opt/letterhaus/', '');
  return files.some((file) => file.path === path)
    ? []
    : [`Dockerfile checks the health by ${script}, which is not there.`];
};
