// Shows the OpenAPI document named by data-schema. Requests go out with the reader's own session.
(function () {
  "use strict";
  const root = document.getElementById("api-docs");
  SwaggerUIBundle({
    url: root.dataset.schema,
    domNode: root,
    presets: [SwaggerUIBundle.presets.apis],
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
    persistAuthorization: false,
  });
})();
