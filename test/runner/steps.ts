/** The steps of `npm test`, cheapest first, so that a slip shows within seconds. */
import { globSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');

/** A tool from the devDependencies that exits 0 when all is well. */
export type ToolStep = {
  kind: 'tool';
  name: string;
  about: string;
  command: [tool: string, ...args: string[]];
};
/** A set of test files for Node's runner. */
export type TestStep = {
  kind: 'tests';
  name: string;
  about: string;
  files: string[];
  /** Its files run when all others have ended, because they say how soon something happens. */
  alone?: Alone;
};
/** Files of these groups run at the same time as the others of their group, all other files one at a time. */
export type Alone = { groups: readonly (readonly string[])[] };
export type Step = ToolStep | TestStep;

/**
 * Files that wait most of the time, and whose limits are more than twice what is promised. The others fail beside one
 * another on a busy machine: one-worker and two-workers, and their tests of mail alone, did.
 */
const WAIT_MOSTLY = [
  [
    'test/isolation/events.test.ts',
    'test/isolation/sign-in.test.ts',
    'test/isolation/uplink.test.ts',
    'test/isolation/webhooks.test.ts',
  ],
];

function allSteps(): Step[] {
  return [
    tool('format', 'layout of all files', ['oxfmt', '--check', '.']),
    types('types', 'TypeScript compiler', '.'),
    types('types-web', 'those of the dashboard', 'web'),
    types('types-handbook', 'those of the handbook', 'web/handbook'),
    tool('lint', 'correctness, with types', ['oxlint', '--type-aware']),
    tool('dead-code', 'unused files, exports, packages', ['knip', '--no-progress']),
    tests('tidy', 'layers, sizes, documents, alarms', ['test/tidy']),
    tests('unit', 'pure code and statements', [
      'src',
      'web/handbook',
      'web/src',
      'test/support',
      'test/runner',
      'test/chaos',
      'test/fuzz',
      'bench',
    ]),
    tests('api', 'the interface, by chapter', ['test/api', 'test/sdk']),
    tests('journey', "emails' lives", ['test/journey']),
    {
      ...tests('isolation', "one sender's trouble stays his own", ['test/isolation']),
      alone: { groups: WAIT_MOSTLY },
    },
    tests('browser', 'the dashboard in Chromium', ['test/browser']),
    tests('launcher', 'install and start', ['test/launcher']),
  ];
}

function tool(name: string, about: string, command: [string, ...string[]]): Step {
  return { name, about, kind: 'tool', command };
}

/** Keeps what it finds: where nothing has changed since, that takes a sixth of the time. */
function types(name: string, about: string, project: string): Step {
  const kept = `node_modules/.cache/${name}.tsbuildinfo`;
  return tool(name, about, ['tsc', '-p', project, '--incremental', '--tsBuildInfoFile', kept]);
}

/** @param places test files, or folders with test files anywhere below */
function tests(name: string, about: string, places: string[]): TestStep {
  const patterns = places.map((place) => (place.endsWith('.ts') ? place : `${place}/**/*.test.ts`));
  return { name, about, kind: 'tests', files: globSync(patterns, { cwd: ROOT }).toSorted() };
}

/**
 * The steps asked for, in their order; a sentence when there is no such step or no such file.
 * @param only names of steps; `check` for those without a service; none means all
 * @param filters parts of paths of test files; with any, only matching test files run
 */
export function chooseSteps(only: string[], filters: string[]): Step[] | string {
  const all = allSteps();
  const names = only.flatMap((name) => (name === 'check' ? checkNames(all) : [name]));
  const unknown = names.find((name) => !all.some((step) => step.name === name));
  if (unknown !== undefined) {
    return `There is no step "${unknown}"; there are ${all.map((step) => step.name).join(', ')}.`;
  }
  const chosen = names.length === 0 ? all : all.filter((step) => names.includes(step.name));
  if (filters.length === 0) return chosen;
  const narrowed = chosen.flatMap((step) => narrow(step, filters));
  return narrowed.length > 0 ? narrowed : `No test file matches ${filters.join(', ')}.`;
}

function checkNames(all: Step[]): string[] {
  return all
    .filter((step) => step.kind === 'tool' || step.name === 'tidy')
    .map((step) => step.name);
}

function narrow(step: Step, filters: string[]): Step[] {
  if (step.kind === 'tool') return [];
  const wanted = filters.map((filter) => filter.replace(/^\.\//, '').replace(`${ROOT}/`, ''));
  return keepFiles(step, (file) => wanted.some((part) => file.includes(part)));
}

/** The step with only these files; no step when there are none. */
export function keepFiles(step: TestStep, isKept: (file: string) => boolean): TestStep[] {
  const files = step.files.filter(isKept);
  return files.length === 0 ? [] : [{ ...step, files }];
}
