/**
 * `npm run helm-check`: Helm lints the chart in deploy/helm/letterhaus, renders it for each file in its `ci` folder,
 * and refuses values that cannot work. Go builds Helm where it is not installed. Exit code 75: there is no Helm, so
 * nothing was checked. No test has the schemas of Kubernetes.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const CHART = join(import.meta.dirname, '../deploy/helm/letterhaus');
const HELM = 'helm.sh/helm/v3/cmd/helm@latest';
/** Helm that Go builds takes an old version for the cluster's. */
const KUBERNETES = ['--kube-version', '1.33.0'];
const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h

/** Values that must be refused, and what the refusal says. */
const REFUSED: { values: string; says: RegExp }[] = [
  { values: '{}', says: /hostname/ },
  { values: '{ hostname: m.test, database: external }', says: /existingSecret is required/ },
  { values: '{ hostname: m.test, replica: 2 }', says: /replica/ },
  { values: '{ hostname: m.test, ingress: { enabled: true } }', says: /ingress needs/ },
  { values: '{ hostname: m.test, env: { lower: x } }', says: /lower/ },
  { values: '{ hostname: m.test, roles: [{ name: a, only: all, replicas: 1 }] }', says: /only/ },
];

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-helm-'));
try {
  process.exitCode = check(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function check(at: string): number {
  const helm = helmOnPath() ?? buildHelm(at);
  if (helm === null) {
    process.stderr.write(
      'The chart was not checked: there is no helm, and Go cannot build it. Put helm on the path.\n',
    );
    return NOT_CHECKED;
  }
  const files = readdirSync(join(CHART, 'ci')).map((name) => join(CHART, 'ci', name));
  const passed = [
    ...files.map((values) => lints(helm, values)),
    ...files.map((values) => renders(helm, values)),
    ...REFUSED.map((refused) => refuses(helm, at, refused)),
  ];
  return passed.every(Boolean) ? 0 : 1;
}

function helmOnPath(): string | null {
  return spawnSync('helm', ['version'], { stdio: 'ignore' }).status === 0 ? 'helm' : null;
}

function buildHelm(at: string): string | null {
  const env = { ...process.env, GOBIN: at };
  const { status } = spawnSync('go', ['install', HELM], { env, stdio: 'inherit' });
  return status === 0 ? join(at, 'helm') : null;
}

function lints(helm: string, values: string): boolean {
  const args = ['lint', '--strict', CHART, '--values', values];
  return spawnSync(helm, args, { stdio: 'inherit' }).status === 0;
}

function renders(helm: string, values: string): boolean {
  const args = ['template', 'lh', CHART, ...KUBERNETES, '--namespace', 'mail', '--values', values];
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: 'utf8' });
  const kinds = [...stdout.matchAll(/^kind: (\w+)/gm)].map(([, kind]) => kind);
  process.stdout.write(`${values}: ${kinds.join(', ')}\n${stderr}`);
  return status === 0 && kinds.length > 3;
}

function refuses(helm: string, at: string, { values, says }: (typeof REFUSED)[number]): boolean {
  const file = join(at, 'values.yaml');
  writeFileSync(file, values);
  const args = ['template', 'lh', CHART, ...KUBERNETES, '--values', file];
  const { status, stderr } = spawnSync(helm, args, { encoding: 'utf8' });
  const isRefused = status !== 0 && says.test(stderr);
  process.stdout.write(`${values}: ${isRefused ? 'refused' : `NOT REFUSED\n${stderr}`}\n`);
  return isRefused;
}
