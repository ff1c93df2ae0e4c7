/**
 * Closing within bounds. Node closes the connections that are between two requests at that moment,
 * and waits for all others for ever: its time limits for slow requests end as soon as the server
 * closes, and a connection whose request ends later stays open for the next one.
 */
import type { App } from './services.ts';

/** @param graceMs how long requests that have begun may take to end */
export function closeInTime(app: App, graceMs: number): void {
  let isClosing = false;
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('preClose', (done) => {
    isClosing = true;
    const cut = setTimeout(() => app.server.closeAllConnections(), graceMs);
    app.server.once('close', () => clearTimeout(cut));
    done();
  });
}
