/**
 * The health check of the image: exits with 0 when the API of this container responds to /healthz, and with 1
 * otherwise. It does not check the certificate, because that is for another name than 127.0.0.1.
 */
import { get as getHttp } from 'node:http';
import { get as getHttps } from 'node:https';

const { PORT, LETTERHAUS_API_TLS_CERT } = process.env;
const options = { host: '127.0.0.1', port: PORT || 3000, path: '/healthz', timeout: 4000 };
const request = LETTERHAUS_API_TLS_CERT
  ? getHttps({ ...options, rejectUnauthorized: false }, onResponse)
  : getHttp(options, onResponse);
request.on('timeout', () => process.exit(1)).on('error', () => process.exit(1));

/** @param {import('node:http').IncomingMessage} response */
function onResponse({ statusCode }) {
  process.exit(statusCode === 200 ? 0 : 1);
}
