/** Shows what the first start prints, and that a real shell can run the printed command. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { curlCommand, firstScreen, laterScreen, type StartScreen } from './start-command.ts';

const SCREEN: StartScreen = {
  info: {
    url: 'http://127.0.0.1:3000',
    siteUrl: 'https://mail.acme.com',
    pid: 42,
    dataDir: '/srv/letterhaus',
    database: 'PostgreSQL 18.4, embedded',
    metricsUrl: null,
    inboundPort: null,
    submissionPorts: [],
    firstStart: null,
  },
  config: { port: 3000, isPortConfigured: false, inboundPort: 25 },
  program: '../bin/letterhaus',
};

const FIRST = { testKey: 'lh_test_x', ownerLink: '/sign-in#first=abc' };

test('the printed curl reaches the API as valid JSON through a real shell', () => {
  const command = curlCommand('http://127.0.0.1:3000', 'lh_test_x');
  const words = execFileSync('sh', ['-c', `set -- ${command}; printf '%s\\n' "$@"`], {
    encoding: 'utf8',
  }).split('\n');
  assert.equal(words[1], 'http://127.0.0.1:3000/v1/emails');
  assert.ok(words.includes('Authorization: Bearer lh_test_x'));
  const body = JSON.parse(words[words.indexOf('-d') + 1] ?? '');
  assert.equal(body.from, 'Acme <hello@acme.test>');
});

test('the first screen shows address, key, the link for the owner, data and how to stop', () => {
  const text = firstScreen(SCREEN, FIRST);
  const link = 'https://mail.acme.com/sign-in#first=abc   (works once, within 30 minutes)';
  for (const part of ['http://127.0.0.1:3000/v1', 'lh_test_x', link, '/srv/letterhaus', 'Ctrl-C']) {
    assert.ok(text.includes(part), part);
  }
  for (const next of ['emails list', 'limits', 'go-live', 'docs/system-user.md']) {
    assert.ok(text.includes(next), `the first screen names ${next} as a next step`);
  }
});

test('a later start prints one line, and reports another port', () => {
  assert.equal(laterScreen(SCREEN).split('\n').length, 2);
  const moved = { ...SCREEN, info: { ...SCREEN.info, url: 'http://127.0.0.1:3001' } };
  assert.match(
    laterScreen(moved),
    /^Port 3000 is in use, so this service listens on port 3001\.\n/,
  );
  const asked = { ...moved, config: { ...SCREEN.config, port: 0, isPortConfigured: true } };
  assert.doesNotMatch(laterScreen(asked), /in use/);
});

test('every start without an inbound port says that late bounces are lost and which variable to set', () => {
  const off = { ...SCREEN, config: { ...SCREEN.config, inboundPort: null } };
  for (const show of [laterScreen, (screen: StartScreen) => firstScreen(screen, FIRST)]) {
    assert.match(show(off), /bounces and complaints .* are lost\.\nSet LETTERHAUS_INBOUND_PORT=25/);
    assert.doesNotMatch(show(SCREEN), /LETTERHAUS_INBOUND_PORT/);
  }
});
