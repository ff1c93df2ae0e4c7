/** Shows which requests for links and pixels count as those of people, and which as those of machines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { botReasonOf, type VisitRequest } from './bot-reason.ts';

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1';
const THUNDERBIRD = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.1.0';
const OUTLOOK =
  'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; WOW64; ms-office; MSOffice 16)';

const reasonOf = (change: Partial<VisitRequest>) =>
  botReasonOf({ isHead: false, userAgent: IPHONE, purpose: null, ...change });

test('requests of browsers and mail programs count as people', () => {
  // The name of this telephone contains "bot".
  const cubot = 'Mozilla/5.0 (Linux; Android 14; CUBOT P80) AppleWebKit/537.36 Chrome/140.0 Mobile';
  for (const userAgent of [IPHONE, THUNDERBIRD, OUTLOOK, cubot]) {
    assert.equal(reasonOf({ userAgent }), null, userAgent);
  }
});

test('requests of prefetchers, proxies, scanners and programs count as machines', () => {
  const google =
    'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)';
  const cases: [string | null, string][] = [
    ['Mozilla/5.0', 'prefetch'],
    [google, 'proxy'],
    ['YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html', 'proxy'],
    ['Mozilla/5.0 (compatible; Barracuda Sentinel (EE))', 'scanner'],
    ['Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)', 'scanner'],
    ['Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5', 'scanner'],
    ['Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)', 'scanner'],
    ['Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/140.0.0.0 Safari/537.36', 'scanner'],
    ['python-requests/2.32.3', 'scanner'],
    ['curl/8.9.1', 'scanner'],
    ['', 'no_user_agent'],
    [null, 'no_user_agent'],
  ];
  for (const [userAgent, reason] of cases) {
    assert.equal(reasonOf({ userAgent }), reason, String(userAgent));
  }
});

test('a HEAD request or a prefetch counts as a machine', () => {
  assert.equal(reasonOf({ isHead: true }), 'head');
  assert.equal(reasonOf({ purpose: 'prefetch;prerender' }), 'prefetch');
  assert.equal(reasonOf({ purpose: 'preview' }), 'prefetch');
});
