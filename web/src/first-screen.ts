/**
 * Prepares the first screen: its file is loaded beside the session, not after it, and the outline
 * of index.html stays until the screen is rendered.
 */
import type { AnyRouter } from '@tanstack/react-router';

type Preloadable = { preload: () => Promise<unknown> };

export function showFirstScreen(router: AnyRouter): void {
  for (const { routeId } of router.matchRoutes(router.latestLocation)) {
    const { component } = router.routesById[routeId]!.options as { component?: unknown };
    if (isPreloadable(component)) void loadNow(component);
  }
  const end = router.subscribe('onRendered', () => {
    document.getElementById('first-screen')?.remove();
    end();
  });
}

function isPreloadable(component: unknown): component is Preloadable {
  return typeof component === 'function' && 'preload' in component;
}

async function loadNow({ preload }: Preloadable): Promise<void> {
  try {
    await preload();
  } catch {
    // A file that cannot be loaded now is loaded when the screen is shown, which tells why.
  }
}
