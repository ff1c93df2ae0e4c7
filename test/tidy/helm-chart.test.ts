/** The chart in deploy/helm, the image and the service agree. Helm itself is not needed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chartFitsTheImage, chartIsComplete, chartSettingsExist } from './helm-chart.ts';
import { holds } from './holds.ts';
import { readFiles } from './source.ts';

const FILES = readFiles(['Dockerfile', 'package.json', 'deploy/helm/**/*.{yaml,tpl,json,txt}']);
const [{ text: configuration } = { text: '' }] = readFiles(['docs/configuration.md']);

holds('variables of the chart exist', FILES, chartSettingsExist(configuration), [
  ['deploy/helm/letterhaus/values.yaml', 'env: { LETTERHAUS_LOG: warn, DATABASE_URL: a }'],
  [
    'deploy/helm/letterhaus/templates/a.yaml',
    'name: LETTERHAUS_HOST_NAME',
    'names LETTERHAUS_HOST_NAME, which is no variable.',
  ],
]);

holds('the pod of the chart has the ports and the user of the image', FILES, chartFitsTheImage, [
  ['Dockerfile', 'FROM debian\nUSER 10001:10001\nEXPOSE 3000\n'],
  ['helm/a/templates/a.yaml', 'containerPort: 3000\ncontainerPort: 9464\nrunAsUser: 10001'],
  ['helm/a/templates/b.yaml', 'containerPort: 25', 'opens 25, a port that the image has not.'],
  ['helm/a/templates/c.yaml', 'runAsUser: 0', 'runs as another user than the image.'],
]);

test('the chart has the version of the service, and a schema of its values', () => {
  assert.deepEqual(chartIsComplete(FILES), []);
  const at = 'deploy/helm/letterhaus';
  const offences = chartIsComplete([
    { path: 'package.json', text: '{"version": "1.0.0"}' },
    { path: `${at}/Chart.yaml`, text: "version: 1.0.0\nappVersion: '0.9.0'" },
    { path: `${at}/values.yaml`, text: 'hostname: a\nhost: b' },
    { path: `${at}/values.schema.json`, text: '{"properties": {"hostname": {}}}' },
  ]);
  assert.deepEqual(offences, [
    `${at}/Chart.yaml has the version 0.9.0, and the service 1.0.0.`,
    `${at}/values.schema.json does not know host.`,
  ]);
});
