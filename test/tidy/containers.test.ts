/** The Dockerfile and the compose files agree, and their settings exist. Docker itself is not needed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDockerfile } from '../../scripts/image/dockerfile.ts';
import { ignoredBy } from '../../scripts/image/ignored.ts';
import { composeFitsTheImage, composeIsConsistent, composeRunsThisVersion } from './containers.ts';
import { composeSettingsExist, healthCheckIsThere } from './containers.ts';
import { holds } from './holds.ts';
import { readFiles } from './source.ts';

const FILES = readFiles(['Dockerfile', 'package.json', 'bin/*.js', 'deploy/docker/*.yml']);
const [{ text: configuration } = { text: '' }] = readFiles(['docs/configuration.md']);
const IMAGE = 'FROM debian\nEXPOSE 3000 2525\nVOLUME /data\n';

holds('variables of compose files exist', FILES, composeSettingsExist(configuration), [
  ['compose.yml', 'services: { letterhaus: { environment: { DATABASE_URL: a } } }'],
  [
    'compose.other.yml',
    'services: { letterhaus: { environment: { LETTERHAUS_HOST_NAME: a } } }',
    'sets LETTERHAUS_HOST_NAME, which is no variable.',
  ],
]);

holds(
  'compose files declare their volumes and wait for health checks',
  FILES,
  composeIsConsistent,
  [
    ['compose.yml', 'services: { a: { volumes: ["d:/d", "./e:/e"] } }\nvolumes: { d: {} }'],
    [
      'compose.a.yml',
      'services: { a: { volumes: ["d:/d"] } }',
      'does not declare the volume d of a.',
    ],
    [
      'compose.b.yml',
      'services: { a: { depends_on: { b: {} } }, b: {} }',
      'waits for b, which has no health check.',
    ],
  ],
);

const SERVICE = {
  build: '.',
  read_only: true,
  cap_drop: ['ALL'],
  security_opt: ['no-new-privileges:true'],
  stop_grace_period: '60s',
  ports: ['25:2525'],
  volumes: ['data:/data'],
};
const compose = (changes: object) =>
  JSON.stringify({ services: { letterhaus: { ...SERVICE, ...changes } } });

holds('a container gives up its privileges and has time to stop', FILES, composeFitsTheImage, [
  ['Dockerfile', IMAGE],
  ['compose.yml', compose({})],
  ['compose.a.yml', compose({ read_only: false }), 'permits writes into the image.'],
  ['compose.b.yml', compose({ cap_drop: [] }), 'keeps capabilities.'],
  ['compose.c.yml', compose({ security_opt: [] }), 'permits new privileges.'],
  ['compose.d.yml', compose({ stop_grace_period: '10s' }), 'stops the service too soon.'],
  ['compose.e.yml', compose({ ports: ['25:25'] }), 'maps a port that the image does not have.'],
  ['compose.f.yml', compose({ volumes: [] }), 'has no volume for the data.'],
]);

const OF_POSTGRES = { image: 'postgres:18', healthcheck: { test: ['CMD', 'pg_isready'] } };
const version = (services: object) => JSON.stringify({ services });

holds('compose files run this version, and health checks exist', FILES, composeRunsThisVersion, [
  ['package.json', '{"version": "0.3.1"}'],
  ['compose.yml', version({ letterhaus: { build: '.', image: 'letterhaus:0.3' }, p: OF_POSTGRES })],
  [
    'compose.a.yml',
    version({ letterhaus: { build: '.', image: 'letterhaus:0.2' } }),
    'builds letterhaus:0.2, and this version is 0.3.1.',
  ],
  ['compose.b.yml', version({ p: {} }), 'has no image for p.'],
  [
    'compose.c.yml',
    version({ p: { ...OF_POSTGRES, healthcheck: { test: ['CMD', 'pg_ready'] } } }),
    'checks the health of p by "pg_ready", which its image does not have.',
  ],
]);

test('the image has the file of its health check', () => {
  assert.deepEqual(healthCheckIsThere(FILES), []);
  const text =
    'FROM debian\nHEALTHCHECK --interval=30s CMD ["node", "/opt/letterhaus/bin/health.js"]\n';
  assert.deepEqual(healthCheckIsThere([{ path: 'Dockerfile', text }]), [
    'Dockerfile checks the health by /opt/letterhaus/bin/health.js, which is not there.',
  ]);
});

test('a Dockerfile is read as Docker reads it, and an unknown instruction is an error', () => {
  const [build, last] = readDockerfile(
    '# c\nFROM node:26 AS build\nRUN a && \\\n  b\nFROM debian\nCOPY --from=build /a /b\nENV A=1 B=2\nUSER 1:2\nCMD ["x"]\n',
  );
  assert.deepEqual(build, {
    base: 'node:26',
    name: 'build',
    steps: [{ kind: 'run', command: 'a && b' }],
    commands: { entrypoint: [], command: [], healthcheck: [] },
  });
  assert.deepEqual(last?.steps, [
    { kind: 'copy', from: 'build', sources: ['/a'], target: '/b' },
    { kind: 'env', variables: { A: '1', B: '2' } },
    { kind: 'user', uid: 1, gid: 2 },
  ]);
  assert.deepEqual(last?.commands.command, ['x']);
  assert.throws(() => readDockerfile('FROM a\nADD b c\n'), /does not know: ADD b c/);
  assert.throws(() => readDockerfile('FROM a\nCOPY --chown=1 b c\n'), /does not know: COPY/);
});

test('the image gets only what .dockerignore names', () => {
  const isIgnored = ignoredBy('# c\n*\n!src\n!runtime/package.json\n**/*.test.ts\n');
  const kept = ['src/a.ts', 'src/a/b.ts', 'runtime/package.json'];
  const left = ['.env', 'data/pg/a', 'src/a/b.test.ts', 'runtime/b', '.git/config'];
  assert.deepEqual(
    [...kept, ...left].filter((path) => !isIgnored(path)),
    kept,
  );
});
