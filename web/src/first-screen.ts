/**
 * Prepares the first screen: its file is loaded beside the session, not after it, and the outline
 * of index.html stays until the screen is rendered.
 */
import type { AnyRouter } from '@tanstack/react-router';

export function showFirstScreen(router: AnyRouter): void {
  for (const { routeId } of router.matchRoutes(router.latestLocation)) {
    const { component } = router.routesById[routeId]!.options;
    // A file that cannot be loaded now is loaded when the screen is shown.
    if (component && 'preload' in component) void loadNow(component.preload);
  }
  const end = router.subscribe('onRendered', () => {
    document.getElementById('first-screen')?.remove();
    end();
  });
}

async function loadNow(preload: unknown): Promise<void> {
  if (typeof preload !== 'function') return;
  try {
    await preload();
  } catch {
    // Shown by the screen.
  }
}
