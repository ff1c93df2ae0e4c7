/** Rules for deploy/helm: the chart, the image and the service agree. `npm run helm-check` renders the chart. */
import { parseYaml } from '@redocly/openapi-core';
import { readDockerfile } from '../../scripts/image/dockerfile.ts';
import type { Rule, SourceFile } from './source.ts';

const isTemplate = ({ path }: SourceFile) => /helm\/.*\/templates\//.test(path);

/** @param documented text of docs/configuration.md */
export const chartSettingsExist =
  (documented: string): Rule =>
  (files) =>
    files
      .filter(({ path }) => path.includes('helm/'))
      .flatMap(({ path, text }) =>
        [...new Set(text.match(/\b(?:LETTERHAUS_[A-Z_]+|DATABASE_URL)\b/g))]
          .filter((name) => !documented.includes(`- \`${name}\` (`) && !IN_COMMANDS.includes(name))
          .map((name) => `${path} names ${name}, which is no variable.`),
      );

/** Variables of commands, which docs/cli.md describes. */
const IN_COMMANDS = ['LETTERHAUS_URL', 'LETTERHAUS_API_KEY'];

/** The ports of the pod are those of the image and of metrics, and it runs as the image's user. */
export const chartFitsTheImage: Rule = (files) => {
  const dockerfile = files.find(({ path }) => path === 'Dockerfile')?.text ?? '';
  const exposed = /^EXPOSE (.*)$/m.exec(dockerfile)?.[1]?.split(' ') ?? [];
  const user = readDockerfile(dockerfile)
    .at(-1)
    ?.steps.flatMap((step) => (step.kind === 'user' ? [step.uid] : []))[0];
  return files.filter(isTemplate).flatMap(({ path, text }) => {
    const ports = [...text.matchAll(/containerPort: (\d+)/g)].map(([, port = '']) => port);
    const unknown = ports
      .filter((port) => !exposed.includes(port) && port !== METRICS_PORT)
      .map((port) => `${path} opens ${port}, a port that the image has not.`);
    const users = [...text.matchAll(/runAsUser: (\d+)/g)].filter(([, uid]) => Number(uid) !== user);
    return [...unknown, ...users.map(() => `${path} runs as another user than the image.`)];
  });
};

const METRICS_PORT = '9464';

/** The chart has the version of the service, and its schema knows each of its values. */
export const chartIsComplete: Rule = (files) => {
  const find = (name: string) => files.find(({ path }) => path.endsWith(name));
  const [chart, values, schema, manifest] = [
    find('helm/letterhaus/Chart.yaml'),
    find('helm/letterhaus/values.yaml'),
    find('helm/letterhaus/values.schema.json'),
    find('package.json'),
  ];
  if (!chart || !values || !schema || !manifest) return ['A file of the chart is missing.'];
  const { version } = JSON.parse(manifest.text) as { version: string };
  const of = parseYaml(chart.text) as { version: string; appVersion: string };
  const others = [of.version, of.appVersion]
    .filter((one) => one !== version)
    .map((one) => `${chart.path} has the version ${one}, and the service ${version}.`);
  const known = (JSON.parse(schema.text) as { properties: object }).properties;
  const unknown = Object.keys(parseYaml(values.text) as object)
    .filter((name) => !(name in known))
    .map((name) => `${schema.path} does not know ${name}.`);
  return [...others, ...unknown];
};
