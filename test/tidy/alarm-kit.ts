/**
 * Rules for deploy/prometheus, deploy/grafana and docs/alarms: they name metrics that exist, and each alarm has a page
 * and tests. Prometheus itself runs the tests (scripts/alarms.ts).
 */
import type { DocumentedMetric } from '../support/documented-metrics.ts';
import type { Rule, SourceFile } from './source.ts';

const PAGES_AT = 'https://github.com/letterhaus/letterhaus/blob/main/docs/alarms/';
const PAGE_HEADINGS = [
  'What it means',
  'What to look at',
  'What to do',
  'When it is over',
] as const;

/** One rule of Prometheus, as text. Relies on the formatter: a key has a fixed indentation. */
type Alarm = { name: string; text: string };

function alarmsIn({ path, text }: SourceFile): Alarm[] {
  if (!path.endsWith('.rules.yml')) return [];
  return text
    .split(/^ {6}- alert: /m)
    .slice(1)
    .map((block) => ({ name: block.slice(0, block.indexOf('\n')), text: block }));
}

const alarmNames = (files: readonly SourceFile[]): string[] => [
  ...new Set(files.flatMap((file) => alarmsIn(file).map(({ name }) => name))),
];

/** `LetterhausMailWaits` has the page `mail-waits.md`. */
function pageOf(alarm: string): string {
  const words = alarm.replace(/^Letterhaus/, '').match(/[A-Z][a-z]+/g) ?? [];
  return `${words.join('-').toLowerCase()}.md`;
}

const REQUIRED: readonly [what: string, pattern: RegExp][] = [
  ['expr', /^ {8}expr: \S/m],
  ['for', /^ {8}for: \d+[smhd]$/m],
  ['severity', /^ {8}labels: \{ severity: (?:page|ticket|info) \}$/m],
  ['summary', /^ {10}summary: '.+'$/m],
  ['description', /^ {10}description: '.+'$/m],
];

export const alarmsAreComplete: Rule = (files) =>
  files.flatMap((file) =>
    alarmsIn(file).flatMap(({ name, text }) => {
      const missing = REQUIRED.filter(([, pattern]) => !pattern.test(text)).map(
        ([what]) => `${file.path} has ${name} without ${what}.`,
      );
      const url = `runbook_url: ${PAGES_AT}${pageOf(name)}\n`;
      return text.includes(url)
        ? missing
        : [...missing, `${file.path} has ${name} without the address of its page.`];
    }),
  );

/** Series names with their matchers, or the labels of a series in a test. */
const SERIES = /\b(letterhaus_\w+)(?:\{([^}]*)\})?/g;
const LABEL = /(\w+)\s*(?:=~|!~|!=|=)\s*"/g;
/** Labels that Prometheus adds, and that of the buckets of a histogram. */
const ADDED_LABELS = new Set(['job', 'instance', 'le']);

/** A misspelt metric or label makes an alarm that never fires, and a panel that stays empty. */
export const metricsExist =
  (documented: readonly DocumentedMetric[]): Rule =>
  (files) => {
    const metrics = new Map(
      documented.flatMap((metric) =>
        namesOf(metric).map((name): [string, DocumentedMetric] => [name, metric]),
      ),
    );
    return files.flatMap(({ path, text }) =>
      [...text.replaceAll('\\"', '"').matchAll(SERIES)].flatMap(([, name = '', labels = '']) => {
        const metric = metrics.get(name);
        if (metric === undefined) return [`${path} uses ${name}, which is no metric.`];
        return [...labels.matchAll(LABEL)]
          .map(([, label = '']) => label)
          .filter((label) => !ADDED_LABELS.has(label) && !metric.labels.includes(label))
          .map((label) => `${path} uses the label ${label} of ${name}, which has none.`);
      }),
    );
  };

function namesOf({ name, type }: DocumentedMetric): string[] {
  return type === 'histogram' ? ['', '_bucket', '_sum', '_count'].map((end) => name + end) : [name];
}

/** Each alarm has a page, and each page its alarm and its place in docs/monitoring.md. */
export const alarmsHavePages: Rule = (files) => {
  const names = alarmNames(files);
  const pages = files.filter(({ path }) => path.startsWith('docs/alarms/'));
  const index = files.find(({ path }) => path === 'docs/monitoring.md')?.text ?? '';
  const missing = names
    .filter((name) => !pages.some(({ path }) => path === `docs/alarms/${pageOf(name)}`))
    .map((name) => `${name} has no page docs/alarms/${pageOf(name)}.`);
  return [...missing, ...pages.flatMap((page) => problemsOfPage(page, { names, index }))];
};

function problemsOfPage(
  { path, text }: SourceFile,
  { names, index }: { names: string[]; index: string },
): string[] {
  const file = path.slice('docs/alarms/'.length);
  const name = names.find((one) => pageOf(one) === file);
  if (name === undefined) return [`${path} is about no alarm.`];
  const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
  return [
    ...(text.startsWith(`# ${name}\n`) ? [] : [`${path} does not begin with # ${name}.`]),
    ...(headings.join() === PAGE_HEADINGS.join() ? [] : [`${path} has other headings.`]),
    ...(index.includes(`[${name}](alarms/${file})`)
      ? []
      : [`${path} is not linked in docs/monitoring.md.`]),
  ];
}

/** In the tests for promtool each alarm fires once, and is quiet once. */
export const alarmsAreTested: Rule = (files) => {
  const cases = files
    .filter(({ path }) => path.endsWith('.test.yml'))
    .flatMap(({ text }) => text.split(/^ {6}- eval_time: /m).slice(1))
    .map((block) => ({
      name: /^ {8}alertname: (\w+)$/m.exec(block)?.[1],
      fires: /^ {8}exp_alerts:$/m.test(block),
    }));
  return alarmNames(files).flatMap((name) => {
    const own = cases.filter((one) => one.name === name);
    return [
      ...(own.some(({ fires }) => fires) ? [] : [`${name} fires in no test.`]),
      ...(own.some(({ fires }) => !fires) ? [] : [`${name} is quiet in no test.`]),
    ];
  });
};

/** Command lines of a page, without `letterhaus`: in code blocks and in code spans. */
export function commandsIn(page: string): string[] {
  const spans = page.replaceAll(/\n +/g, ' ').matchAll(/`letterhaus ([^`]+)`/g);
  const lines = page.matchAll(/^ {4,}letterhaus (.+)$/gm);
  return [...spans, ...lines].map(([, line = '']) => line);
}

/** Texts that a page searches for in the log of the service. Those with quotes are fields of JSON. */
export function loggedTextsIn(page: string): string[] {
  const lines = page.split('\n').filter((line) => line.includes('journalctl'));
  const patterns = lines.flatMap((line) =>
    [...line.matchAll(/\| grep (?:-i )?('[^']*'|\S+)/g)].map(([, pattern = '']) =>
      pattern.replaceAll("'", ''),
    ),
  );
  return patterns.filter((pattern) => !/["-]/.test(pattern.charAt(0)));
}
